//! [`Conventions`]: the version of the semantic conventions for generative AI.

use std::sync::Arc;

use opentelemetry::{KeyValue, StringValue, Value};

/// The value of `OTEL_SEMCONV_STABILITY_OPT_IN` that selects the latest conventions.
const LATEST: &str = "gen_ai_latest_experimental";

/// The exported version of the semantic conventions for generative AI.
///
/// The versions differ in the attribute for the provider and in some of its values. Attributes and
/// metrics that exist only in the latest conventions are exported in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Conventions {
    /// Version 1.36.0, which is the default by the transition plan of the conventions. Its
    /// attribute for the provider is `gen_ai.system`.
    #[default]
    V1_36,
    /// The latest version. Its attribute for the provider is `gen_ai.provider.name`.
    Latest,
}

impl Conventions {
    /// Parses the value of `OTEL_SEMCONV_STABILITY_OPT_IN`, a comma-separated list. Values of other
    /// categories are ignored.
    pub fn from_opt_in(value: &str) -> Self {
        match value.split(',').any(|value| value.trim() == LATEST) {
            true => Conventions::Latest,
            false => Conventions::V1_36,
        }
    }

    /// Returns the attribute for the provider of a model, `PROVIDER/NAME`.
    pub(crate) fn provider(self, model: &str) -> KeyValue {
        let provider = model.split_once('/').map_or("_OTHER", |(provider, _)| provider);
        let (key, x_ai) = match self {
            Conventions::V1_36 => ("gen_ai.system", "xai"),
            Conventions::Latest => ("gen_ai.provider.name", "x_ai"),
        };
        let well_known = match provider {
            "google" => "gcp.gemini",
            "mistral" => "mistral_ai",
            "moonshot" | "moonshotai" => "moonshot_ai",
            "xai" => x_ai,
            "azure" => "azure.ai.openai",
            "bedrock" => "aws.bedrock",
            other => other,
        };
        KeyValue::new(key, Value::String(StringValue::from(Arc::<str>::from(well_known))))
    }
}

/// A model as named in attributes. Clones share the text.
#[derive(Clone)]
pub(crate) struct Model {
    /// `PROVIDER/NAME`.
    pub(crate) id: Arc<str>,
    pub(crate) provider: KeyValue,
    pub(crate) name: Arc<str>,
}

impl Model {
    pub(crate) fn new(conventions: Conventions, id: &Arc<str>) -> Self {
        let name = id.split_once('/').map_or(&**id, |(_, name)| name).into();
        Model { id: id.clone(), provider: conventions.provider(id), name }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_opt_in_is_one_of_a_list() {
        for (value, conventions) in [
            ("", Conventions::V1_36),
            ("http", Conventions::V1_36),
            ("gen_ai_latest_experimental", Conventions::Latest),
            ("http, gen_ai_latest_experimental", Conventions::Latest),
            ("gen_ai_latest_experimental_2", Conventions::V1_36),
        ] {
            assert_eq!(Conventions::from_opt_in(value), conventions, "{value:?}");
        }
    }

    #[test]
    fn providers_have_the_names_of_the_version() {
        let old = |model| Conventions::V1_36.provider(model);
        let new = |model| Conventions::Latest.provider(model);
        assert_eq!(old("xai/grok-4"), KeyValue::new("gen_ai.system", "xai"));
        assert_eq!(new("xai/grok-4"), KeyValue::new("gen_ai.provider.name", "x_ai"));
        assert_eq!(new("google/gemini"), KeyValue::new("gen_ai.provider.name", "gcp.gemini"));
        assert_eq!(new("acme/m/n"), KeyValue::new("gen_ai.provider.name", "acme"));
        assert_eq!(&*Model::new(Conventions::Latest, &"acme/m/n".into()).name, "m/n");
    }
}
