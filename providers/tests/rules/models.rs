//! Requests that models refuse, according to their documentation and their servers' responses.
//! Independent of the encoders' tables.

/// The options that one of OpenAI's models accepts.
pub(crate) struct OpenAi {
    /// The accepted efforts; empty if the model does not reason.
    pub(crate) efforts: &'static [&'static str],
    /// The default effort, which is never sent.
    pub(crate) usual: &'static str,
    /// `true` if Chat Completions refuses any effort but `none` together with tools.
    pub(crate) none_beside_tools: bool,
}

const ALL: &[&str] = &["none", "minimal", "low", "medium", "high", "xhigh"];
const TO_HIGH: &[&str] = &["low", "medium", "high"];
const TO_XHIGH: &[&str] = &["low", "medium", "high", "xhigh"];
const NONE_TO_XHIGH: &[&str] = &["none", "low", "medium", "high", "xhigh"];

/// Returns OpenAI's documentation of the model `name`.
pub(crate) fn openai(name: &str) -> OpenAi {
    let name = name.rsplit('/').next().unwrap();
    let (efforts, usual): (&[&str], _) = match name {
        "gpt-6-astra" => (TO_XHIGH, "medium"),
        _ if name.contains("-pro") && name.starts_with("gpt-5.") => {
            (&["medium", "high", "xhigh"], "medium")
        }
        "gpt-5-pro" => (&["high"], "high"),
        "gpt-5-chat-latest" => (&[], "none"),
        _ if name.contains("-chat") => (&["medium"], "medium"),
        "gpt-5.1-codex" | "gpt-5-codex" => (TO_HIGH, "medium"),
        _ if name.contains("-codex") => (TO_XHIGH, "medium"),
        "gpt-5.1" => (&["none", "low", "medium", "high"], "none"),
        _ if name.starts_with("gpt-5.2") || name.starts_with("gpt-5.4") => (NONE_TO_XHIGH, "none"),
        _ if name.starts_with("gpt-5.") || name.starts_with("gpt-6") => (NONE_TO_XHIGH, "medium"),
        _ if name.starts_with("gpt-5") => (&["minimal", "low", "medium", "high"], "medium"),
        _ if name.starts_with("o1") || name.starts_with("o3") || name.starts_with("o4") => {
            (TO_HIGH, "medium")
        }
        _ if name.starts_with("gpt-4") || name.starts_with("gpt-3") => (&[], "none"),
        _ => (ALL, "none"),
    };
    let newer = ["gpt-5.4", "gpt-5.5", "gpt-5.6", "gpt-6"];
    OpenAi { efforts, usual, none_beside_tools: newer.iter().any(|begin| name.starts_with(begin)) }
}

/// The options that one of Anthropic's models accepts.
pub(crate) struct Claude {
    /// The accepted types of `thinking`.
    pub(crate) thinking: &'static [&'static str],
    /// `true` if the model thinks by default.
    pub(crate) thinks: bool,
    /// `true` if a tool call can be forced while the model does not think, or always for the model
    /// that always thinks.
    pub(crate) forced: bool,
    pub(crate) temperature: bool,
}

/// Returns Anthropic's documentation of the model `name`. Other models accept everything.
pub(crate) fn claude(name: &str) -> Claude {
    let any = Claude {
        thinking: &["enabled", "adaptive", "disabled"],
        thinks: false,
        forced: true,
        temperature: true,
    };
    let Some((_, name)) = name.split_once("claude-") else {
        return any;
    };
    let name = name.replace('.', "-");
    let is = |begin: &[&str]| begin.iter().any(|begin| name.starts_with(begin));
    let adaptive = Claude { thinking: &["adaptive", "disabled"], ..any };
    if is(&["opus-5-5", "fable-5-1"]) {
        Claude { thinking: &["adaptive"], thinks: true, forced: false, temperature: false }
    } else if is(&["sonnet-5-5"]) {
        Claude {
            thinking: &["adaptive", "between_tools"],
            thinks: true,
            forced: false,
            temperature: false,
        }
    } else if is(&["fable-5"]) {
        Claude { thinking: &["adaptive"], thinks: false, forced: true, temperature: false }
    } else if is(&["opus-5", "sonnet-5", "haiku-5"]) {
        Claude { thinks: true, temperature: false, ..adaptive }
    } else if is(&["opus-4-7", "opus-4-8"]) {
        Claude { temperature: false, ..adaptive }
    } else if is(&["opus-4-6", "sonnet-4-6"]) {
        adaptive
    } else {
        Claude { thinking: &["enabled", "disabled"], ..any }
    }
}
