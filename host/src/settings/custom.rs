//! [`CustomSetting`]: a setting that an app adds to the settings of its sessions.

use std::collections::BTreeMap;

use loopwright_protocols::{MAX_WHOLE, NOT_BLANK, from_json, pointer_to};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use crate::error::ConfigError;
use crate::rejection::AgentRejection;

/// The values of custom settings, by their names.
pub(crate) type CustomValues = BTreeMap<String, Value>;

/// A setting that an app adds to the settings of its sessions.
///
/// Its values are in [`SessionSettings::custom`](crate::SessionSettings::custom), and thus stored
/// with sessions. Clients of a server choose them under `custom` of the settings. An agent reads
/// them with [`AgentSetup::custom`](crate::AgentSetup::custom).
///
/// Everyone who may read the session sees the values, so a setting must not be a key or a password.
///
/// ```
/// use loopwright_host::CustomSetting;
///
/// let region = CustomSetting::choice("region", "The region to search", ["eu", "us"]);
/// assert_eq!(region.parse("eu"), Some("eu".into()));
/// assert_eq!(region.parse("mars"), None);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct CustomSetting {
    name: String,
    help: String,
    kind: SettingKind,
    default: Option<Value>,
    is_host_only: bool,
}

/// The type of a [`CustomSetting`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SettingKind {
    /// A text that is not blank.
    Text,
    /// A boolean.
    Switch,
    /// A whole number, between -2^53 and 2^53.
    Integer,
    /// A number, whole or not.
    Number,
    /// One of these words.
    Choice(Vec<String>),
}

impl CustomSetting {
    fn new(name: impl Into<String>, help: impl Into<String>, kind: SettingKind) -> Self {
        let (name, help) = (name.into(), help.into());
        CustomSetting { name, help, kind, default: None, is_host_only: false }
    }

    /// Creates a text setting. The name consists of words of lower-case letters and digits, with
    /// `-` between them. `help` is a line that explains the setting.
    pub fn text(name: impl Into<String>, help: impl Into<String>) -> Self {
        CustomSetting::new(name, help, SettingKind::Text)
    }

    /// Creates a boolean setting, `false` by default.
    pub fn switch(name: impl Into<String>, help: impl Into<String>) -> Self {
        CustomSetting::new(name, help, SettingKind::Switch).default(false)
    }

    /// Creates a setting with a whole number between -2^53 and 2^53.
    pub fn integer(name: impl Into<String>, help: impl Into<String>) -> Self {
        CustomSetting::new(name, help, SettingKind::Integer)
    }

    /// Creates a setting with a number.
    pub fn number(name: impl Into<String>, help: impl Into<String>) -> Self {
        CustomSetting::new(name, help, SettingKind::Number)
    }

    /// Creates a setting with one of several words.
    pub fn choice<W: Into<String>>(
        name: impl Into<String>,
        help: impl Into<String>,
        words: impl IntoIterator<Item = W>,
    ) -> Self {
        let words = words.into_iter().map(Into::into).collect();
        CustomSetting::new(name, help, SettingKind::Choice(words))
    }

    /// Sets the value of sessions that have none. It is not stored with them.
    pub fn default(mut self, value: impl Into<Value>) -> Self {
        self.default = Some(value.into());
        self
    }

    /// Prevents clients of a server from choosing the value. Only the operator and the user of a
    /// terminal choose it.
    pub fn host_only(mut self) -> Self {
        self.is_host_only = true;
        self
    }

    /// Returns the name, such as `max-amount`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the line that explains the setting.
    pub fn help(&self) -> &str {
        &self.help
    }

    /// Returns the type.
    pub fn kind(&self) -> &SettingKind {
        &self.kind
    }

    /// Returns the value of sessions that have none.
    pub fn default_value(&self) -> Option<&Value> {
        self.default.as_ref()
    }

    /// Returns a description of the valid values, such as `true or false`.
    pub fn allowed(&self) -> String {
        match &self.kind {
            SettingKind::Text => "a text that is not blank".into(),
            SettingKind::Switch => "true or false".into(),
            SettingKind::Integer => {
                format!("a whole number from -{MAX_WHOLE} to {MAX_WHOLE}")
            }
            SettingKind::Number => "a number".into(),
            SettingKind::Choice(words) => format!("one of: {}", words.join(", ")),
        }
    }

    /// Returns a value in the form that agents read, or `None` if it is invalid.
    pub fn read(&self, value: &Value) -> Option<Value> {
        match &self.kind {
            SettingKind::Text => value.as_str().filter(|text| !text.trim().is_empty()),
            SettingKind::Choice(words) => {
                value.as_str().filter(|text| words.iter().any(|word| word == text))
            }
            SettingKind::Switch => return value.as_bool().map(Value::from),
            SettingKind::Integer => return whole(value).map(Value::from),
            SettingKind::Number => return value.is_number().then(|| value.clone()),
        }
        .map(Value::from)
    }

    /// Parses a value written as text, such as an environment variable. Returns `None` if it is
    /// invalid.
    pub fn parse(&self, text: &str) -> Option<Value> {
        self.read(&match (&self.kind, text) {
            (SettingKind::Text | SettingKind::Choice(_), text) => text.into(),
            (SettingKind::Switch, "true" | "1") => true.into(),
            (SettingKind::Switch, "false" | "0") => false.into(),
            (SettingKind::Switch, _) => return None,
            (SettingKind::Integer | SettingKind::Number, text) => match text.parse::<i64>() {
                Ok(whole) => whole.into(),
                Err(_) => text.parse::<f64>().ok()?.into(),
            },
        })
    }

    /// Checks all settings of an app: their names are valid and distinct, choices have words, and
    /// default values are valid.
    ///
    /// # Errors
    /// Returns a [`ConfigError`] that names the setting.
    pub fn check_all(settings: &[CustomSetting]) -> Result<(), ConfigError> {
        for (index, setting) in settings.iter().enumerate() {
            let name = &setting.name;
            let has_words =
                !matches!(&setting.kind, SettingKind::Choice(words) if words.is_empty());
            let is_invalid = |default: &Value| setting.read(default).is_none();
            let why = if !is_valid_name(name) {
                "has an invalid name: give it words of the letters a to z and of digits, which \
                 begin with a letter and have `-` between them"
                    .to_owned()
            } else if settings[..index].iter().any(|other| other.name == *name) {
                "is added twice: rename one of the two".to_owned()
            } else if !has_words {
                "is a choice without words: give it some".to_owned()
            } else if setting.default.as_ref().is_some_and(is_invalid) {
                format!("has an invalid default value: it must be {}", setting.allowed())
            } else {
                continue;
            };
            return Err(ConfigError::new(format!("The setting `{name}` {why}.")));
        }
        Ok(())
    }

    /// Returns the JSON Schema of the values that clients can choose, or `None` if they can choose
    /// none.
    pub fn schema_of_all(settings: &[CustomSetting]) -> Option<Value> {
        let properties = settings.iter().filter(|setting| !setting.is_host_only);
        let properties = properties.map(|setting| (setting.name.clone(), setting.schema()));
        let properties: Map<String, Value> = properties.collect();
        (!properties.is_empty()).then(|| {
            json!({
                "type": ["object", "null"],
                "description": "Settings of this app.",
                "properties": properties,
                "additionalProperties": false,
            })
        })
    }

    /// Returns the value for a session whose settings contain these values.
    pub(crate) fn value_in<T: DeserializeOwned>(
        &self,
        values: &CustomValues,
    ) -> Result<T, AgentRejection> {
        let value = match values.get(&self.name) {
            Some(value) => Some(self.read(value).ok_or_else(|| self.invalid())?),
            None => self.default.clone(),
        };
        match value {
            Some(value) => Ok(from_json(value.to_string().as_bytes(), &path(&self.name))?),
            None => T::deserialize(Value::Null).map_err(|_| {
                let why =
                    format!("The setting `{}` is required: give {}.", self.name, self.allowed());
                AgentRejection::bad_request(path(&self.name), why)
            }),
        }
    }

    fn invalid(&self) -> AgentRejection {
        let why = format!("The setting `{}` must be {}.", self.name, self.allowed());
        AgentRejection::bad_request(path(&self.name), why)
    }

    /// Returns the JSON Schema of the values that clients send.
    fn schema(&self) -> Value {
        let limits = json!({ "minimum": -(MAX_WHOLE as i64), "maximum": MAX_WHOLE });
        let (kind, more) = match &self.kind {
            SettingKind::Text => ("string", json!({ "pattern": NOT_BLANK })),
            SettingKind::Switch => ("boolean", json!({})),
            SettingKind::Integer => ("integer", limits),
            SettingKind::Number => ("number", json!({})),
            SettingKind::Choice(words) => {
                let words = words.iter().map(|word| json!(word)).chain([Value::Null]);
                ("string", json!({ "enum": words.collect::<Vec<_>>() }))
            }
        };
        let mut schema = json!({ "type": [kind, "null"], "description": self.help });
        if let (Some(schema), Value::Object(more)) = (schema.as_object_mut(), more) {
            schema.extend(more);
            schema.extend(self.default.clone().map(|value| ("default".to_owned(), value)));
        }
        schema
    }
}

/// Checks a client's values, or its changes to the values `old`.
pub(crate) fn check_values(
    settings: &[CustomSetting],
    new: &CustomValues,
    old: &CustomValues,
) -> Result<(), AgentRejection> {
    let names = new.keys().chain(old.keys().filter(|name| !new.contains_key(*name)));
    for name in names.filter(|name| new.get(*name) != old.get(*name)) {
        let setting = settings.iter().find(|setting| setting.name == *name);
        match (setting, new.get(name)) {
            (Some(setting), _) if setting.is_host_only => {
                let why = "It cannot be set here: only the server's operator does.";
                return Err(AgentRejection::bad_request(path(name), why));
            }
            (Some(setting), Some(value)) if setting.read(value).is_none() => {
                return Err(setting.invalid());
            }
            (None, Some(_)) => {
                return Err(AgentRejection::bad_request(path(name), unknown(settings)));
            }
            (Some(_), _) | (None, None) => {}
        }
    }
    Ok(())
}

/// Deserialises values of custom settings. `null` stands for no value.
pub(super) fn custom_values<'de, D: Deserializer<'de>>(from: D) -> Result<CustomValues, D::Error> {
    let values = Option::<BTreeMap<String, Option<Value>>>::deserialize(from)?;
    let values = values.unwrap_or_default().into_iter();
    Ok(values.filter_map(|(name, value)| Some((name, value?))).collect())
}

/// Returns the error for the name of an unknown setting.
fn unknown(settings: &[CustomSetting]) -> String {
    let names = settings.iter().filter(|setting| !setting.is_host_only);
    let names: Vec<String> = names.map(|setting| format!("`{}`", setting.name)).collect();
    match names.is_empty() {
        true => {
            "There is no such setting here, and no other of the app's own: leave it out.".into()
        }
        false => format!("There is no such setting here. There are: {}.", names.join(", ")),
    }
}

fn path(name: &str) -> String {
    format!("/custom{}", pointer_to(name))
}

fn is_valid_name(name: &str) -> bool {
    let is_word = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
    };
    name.starts_with(|first: char| first.is_ascii_lowercase()) && name.split('-').all(is_word)
}

/// Returns a whole number, even if it is written `8.0`.
fn whole(value: &Value) -> Option<i64> {
    let number = value.as_f64()?;
    let whole = number as i64;
    (whole as f64 == number && whole.unsigned_abs() <= MAX_WHOLE).then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_the_type_of_its_setting() {
        let text = CustomSetting::text("name", "");
        let switch = CustomSetting::switch("name", "");
        let integer = CustomSetting::integer("name", "");
        let number = CustomSetting::number("name", "");
        let choice = CustomSetting::choice("name", "", ["eu", "us"]);
        for (setting, valid, invalid) in [
            (text, json!("x"), [json!(" "), json!(1)]),
            (switch, json!(false), [json!("true"), json!(0)]),
            (integer, json!(-8), [json!(8.5), json!(1_u64 << 53)]),
            (number, json!(8.5), [json!("8.5"), json!(true)]),
            (choice, json!("us"), [json!("US"), json!(["us"])]),
        ] {
            assert_eq!(setting.read(&valid), Some(valid.clone()), "{setting:?}");
            let written = valid.as_str().map_or_else(|| valid.to_string(), str::to_owned);
            assert_eq!(setting.parse(&written), Some(valid), "{setting:?}");
            for value in invalid {
                assert_eq!(setting.read(&value), None, "{setting:?} {value}");
            }
        }
        assert_eq!(CustomSetting::integer("n", "").read(&json!(8.0)), Some(json!(8)));
        for text in ["NaN", "inf", "1e400", "many", ""] {
            assert_eq!(CustomSetting::number("n", "").parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_setting_has_a_valid_name_of_its_own_and_a_valid_default() {
        let ok = |name: &str| CustomSetting::text(name, "");
        assert!(CustomSetting::check_all(&[ok("region"), ok("max-amount-2")]).is_ok());
        let none: [&str; 0] = [];
        for (settings, why) in [
            (vec![ok("")], "invalid name"),
            (vec![ok("Region")], "invalid name"),
            (vec![ok("2fast")], "invalid name"),
            (vec![ok("max_amount")], "invalid name"),
            (vec![ok("max--amount")], "invalid name"),
            (vec![ok("region-")], "invalid name"),
            (vec![ok("region"), ok("region")], "added twice"),
            (vec![CustomSetting::choice("region", "", none)], "without words"),
            (vec![CustomSetting::integer("n", "").default("x")], "must be a whole number"),
        ] {
            let error = CustomSetting::check_all(&settings).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn an_agent_gets_the_value_else_the_default() {
        let values = CustomValues::from([("region".to_owned(), json!("eu"))]);
        let region = CustomSetting::text("region", "").default("us");
        assert_eq!(region.value_in::<String>(&values).unwrap(), "eu");
        assert_eq!(region.value_in::<String>(&CustomValues::new()).unwrap(), "us");
        let required = CustomSetting::number("limit", "");
        assert_eq!(required.value_in::<Option<f64>>(&values).unwrap(), None);
        let error = required.value_in::<f64>(&values).unwrap_err();
        assert_eq!(error.path(), Some("/custom/limit"));
        assert!(error.message().contains("`limit` is required: give a number"), "{error}");
        let changed = CustomSetting::choice("region", "", ["us"]); // since the session was stored
        let error = changed.value_in::<String>(&values).unwrap_err();
        assert!(error.message().contains("`region` must be one of: us"), "{error}");
        let error = region.value_in::<bool>(&values).unwrap_err();
        assert_eq!(error.path(), Some("/custom/region"), "{error}");
    }
}
