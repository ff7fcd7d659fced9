//! Known providers, as data.

use crate::catalogue::Wire;

/// A provider of models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Provider {
    /// Provider's name, the first half of a model's id.
    pub name: &'static str,
    /// Other names of the provider.
    pub also: &'static [&'static str],
    /// Wire format of the provider's models, unless the catalogue has another.
    pub wire: Wire,
    /// Base URL; empty if each customer has a different one.
    pub base_url: &'static str,
    /// Environment variable that replaces the base URL.
    pub base_url_var: Option<&'static str>,
    /// Path between the address in that variable and the path that the format adds.
    pub base_path: &'static str,
    /// Environment variables that may hold the key, in order of precedence.
    pub key_vars: &'static [&'static str],
    /// `true` for a local server, which needs no key and whose tokens are free.
    pub local: bool,
    /// Model to start with; empty if only the customer or the server knows one.
    pub default_model: &'static str,
}

const HOSTED: Provider = Provider {
    name: "",
    also: &[],
    wire: Wire::OpenAiChat,
    base_url: "",
    base_url_var: None,
    base_path: "",
    key_vars: &[],
    local: false,
    default_model: "",
};
const LOCAL: Provider = Provider { local: true, ..HOSTED };

/// Providers known by name, in the order in which [`from_env`](crate::from_env) tries them.
pub const PROVIDERS: &[Provider] = &[
    Provider {
        name: "openai",
        wire: Wire::OpenAiResponses,
        base_url: "https://api.openai.com/v1",
        base_url_var: Some("OPENAI_BASE_URL"),
        key_vars: &["OPENAI_API_KEY"],
        default_model: "gpt-6-luna",
        ..HOSTED
    },
    Provider {
        name: "anthropic",
        wire: Wire::Anthropic,
        base_url: "https://api.anthropic.com/v1",
        base_url_var: Some("ANTHROPIC_BASE_URL"),
        base_path: "/v1",
        key_vars: &["ANTHROPIC_API_KEY"],
        default_model: "claude-haiku-4-5",
        ..HOSTED
    },
    Provider {
        name: "google",
        also: &["gemini"],
        wire: Wire::Gemini,
        base_url: "https://generativelanguage.googleapis.com/v1beta",
        base_url_var: Some("GOOGLE_GEMINI_BASE_URL"),
        base_path: "/v1beta",
        key_vars: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        default_model: "gemini-3.5-flash-lite",
        ..HOSTED
    },
    Provider {
        name: "openrouter",
        base_url: "https://openrouter.ai/api/v1",
        key_vars: &["OPENROUTER_API_KEY"],
        default_model: "openai/gpt-6-luna",
        ..HOSTED
    },
    Provider {
        name: "groq",
        base_url: "https://api.groq.com/openai/v1",
        key_vars: &["GROQ_API_KEY"],
        default_model: "openai/gpt-oss-120b",
        ..HOSTED
    },
    Provider {
        name: "deepseek",
        base_url: "https://api.deepseek.com/v1",
        key_vars: &["DEEPSEEK_API_KEY"],
        default_model: "deepseek-flash",
        ..HOSTED
    },
    Provider {
        name: "mistral",
        base_url: "https://api.mistral.ai/v1",
        key_vars: &["MISTRAL_API_KEY"],
        default_model: "mistral-small-latest",
        ..HOSTED
    },
    Provider {
        name: "xai",
        base_url: "https://api.x.ai/v1",
        key_vars: &["XAI_API_KEY"],
        default_model: "grok-4.3",
        ..HOSTED
    },
    Provider {
        name: "together",
        base_url: "https://api.together.xyz/v1",
        key_vars: &["TOGETHER_API_KEY"],
        default_model: "openai/gpt-oss-120b",
        ..HOSTED
    },
    Provider {
        name: "azure",
        wire: Wire::OpenAiResponses,
        base_url_var: Some("AZURE_OPENAI_ENDPOINT"),
        base_path: "/openai/v1",
        key_vars: &["AZURE_OPENAI_API_KEY"],
        ..HOSTED
    },
    Provider {
        name: "ollama",
        base_url: "http://127.0.0.1:11434/v1",
        base_url_var: Some("OLLAMA_HOST"),
        base_path: "/v1",
        ..LOCAL
    },
    Provider {
        name: "llamacpp",
        also: &["llama.cpp"],
        base_url: "http://127.0.0.1:8080/v1",
        key_vars: &["LLAMA_API_KEY"],
        ..LOCAL
    },
    Provider {
        name: "vllm",
        base_url: "http://127.0.0.1:8000/v1",
        key_vars: &["VLLM_API_KEY"],
        ..LOCAL
    },
    Provider { name: "lmstudio", base_url: "http://127.0.0.1:1234/v1", ..LOCAL },
];

impl Provider {
    /// Returns the provider with this name, if it is known.
    pub fn named(name: &str) -> Option<&'static Provider> {
        PROVIDERS.iter().find(|provider| provider.name == name || provider.also.contains(&name))
    }

    /// Returns the address in the provider's environment variable, or else its base URL. Returns
    /// `None` if there is neither.
    pub fn address(&self, var: impl Fn(&str) -> Option<String>) -> Option<String> {
        let configured = self.base_url_var.and_then(var).filter(|url| !url.trim().is_empty());
        match configured {
            Some(configured) if self.local => {
                Some(with_path(&self.with_host(configured.trim()), self.base_path))
            }
            Some(configured) => Some(with_path(configured.trim(), self.base_path)),
            None => Some(self.base_url.to_owned()).filter(|url| !url.is_empty()),
        }
    }

    /// Converts a listening address such as `0.0.0.0:11434` to a URL that clients can reach.
    fn with_host(&self, configured: &str) -> String {
        let (scheme, configured) = configured.split_once("://").unwrap_or(("http", configured));
        let (host, path) = configured
            .split_once('/')
            .map_or((configured, String::new()), |(host, path)| (host, format!("/{path}")));
        let host = host.replacen("0.0.0.0", "127.0.0.1", 1);
        let host = if host.starts_with(':') { format!("127.0.0.1{host}") } else { host };
        let has_port = host.rsplit(']').next().is_some_and(|end| end.contains(':'));
        let port = self
            .base_url
            .rsplit(':')
            .next()
            .and_then(|rest| rest.split('/').next())
            .unwrap_or_default();
        match has_port || scheme == "https" {
            true => format!("{scheme}://{host}{path}"),
            false => format!("{scheme}://{host}:{port}{path}"),
        }
    }
}

/// Returns whether `host` is `name` or a subdomain of it.
pub(crate) fn is_below(host: &str, name: &str) -> bool {
    host.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// Appends the missing part of `path` to `url`. An address that ends with a version, such as `v1`,
/// is not changed. Users of some providers usually omit the common part of the path.
pub(crate) fn with_path(url: &str, path: &str) -> String {
    let url = url.trim_end_matches('/');
    let last = url.split('/').skip(3).last().unwrap_or_default();
    if last
        .strip_prefix('v')
        .is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
    {
        return url.to_owned();
    }
    let end = path.rfind('/').filter(|end| *end > 0 && url.ends_with(&path[..*end])).unwrap_or(0);
    format!("{url}{}", &path[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configured(provider: &str, url: &str) -> Option<String> {
        Provider::named(provider)?.address(|_| Some(url.into()))
    }

    #[test]
    fn an_address_is_completed_as_its_variable_is_used() {
        for (provider, value, expected) in [
            ("anthropic", "https://gateway.test", "https://gateway.test/v1"),
            (
                "anthropic",
                "https://gateway.test/anthropic/v1/",
                "https://gateway.test/anthropic/v1",
            ),
            ("anthropic", "https://gateway.test/anthropic", "https://gateway.test/anthropic/v1"),
            ("anthropic", "https://gateway.test/v1/of/us", "https://gateway.test/v1/of/us/v1"),
            ("google", "https://gateway.test", "https://gateway.test/v1beta"),
            ("google", "https://gateway.test/v1alpha", "https://gateway.test/v1alpha"),
            ("openai", "https://gateway.test/of/us", "https://gateway.test/of/us"),
            ("azure", "https://me.openai.azure.com/", "https://me.openai.azure.com/openai/v1"),
            (
                "azure",
                "https://me.openai.azure.com/openai/v1",
                "https://me.openai.azure.com/openai/v1",
            ),
            ("azure", "https://gateway.test/openai", "https://gateway.test/openai/v1"),
            ("ollama", "0.0.0.0", "http://127.0.0.1:11434/v1"),
            ("ollama", ":1234", "http://127.0.0.1:1234/v1"),
            ("ollama", "box.lan:5000", "http://box.lan:5000/v1"),
            ("ollama", "https://ollama.test", "https://ollama.test/v1"),
            ("ollama", "http://[::1]", "http://[::1]:11434/v1"),
        ] {
            assert_eq!(
                configured(provider, value).as_deref(),
                Some(expected),
                "{provider} {value}"
            );
        }
    }

    #[test]
    fn without_a_variable_it_is_its_own() {
        let own = |name| {
            Provider::named(name).and_then(|provider| provider.address(|_| Some(" ".into())))
        };
        assert_eq!(
            own("gemini").as_deref(),
            Some("https://generativelanguage.googleapis.com/v1beta")
        );
        assert_eq!(own("azure"), None);
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<&str> =
            PROVIDERS.iter().flat_map(|p| [&[p.name], p.also].concat()).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
