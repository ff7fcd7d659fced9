//! [`SettingsChange`]: a client's changes to the settings of a session.

use std::borrow::Cow;

use loopwright_protocols::{from_json, pointer_to};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{SessionSettings, Setting};
use crate::rejection::AgentRejection;

/// The setting that contains the values of the app's own settings, each of which can change.
const CUSTOM: &str = "custom";

/// New values for settings of a session. They have the types of [`SessionSettings`].
#[derive(Default, Deserialize)]
#[serde(transparent)]
pub struct SettingsChange(Map<String, Value>);

/// Returns the JSON names of the settings that can change. The others are the identity of a
/// session: its agent, its directory, its loop.
fn changeable() -> impl Iterator<Item = String> {
    SessionSettings::ALL.iter().filter(|setting| setting.is_changeable).map(Setting::json_name)
}

impl SettingsChange {
    /// Creates a change of the name.
    pub fn name(name: String) -> Self {
        SettingsChange(Map::from_iter([("name".to_owned(), name.into())]))
    }

    /// Returns the changed settings. An address belongs to its model, and is removed when the model
    /// changes.
    ///
    /// # Errors
    /// Rejects a setting that cannot change, and an invalid value.
    pub fn apply(self, settings: &SessionSettings) -> Result<SessionSettings, AgentRejection> {
        if let Some(name) = self.0.keys().find(|name| !changeable().any(|known| known == **name)) {
            let names: Vec<String> = changeable().collect();
            let why = format!("It cannot be changed. These settings can: {}.", names.join(", "));
            return Err(AgentRejection::bad_request(pointer_to(name), why));
        }
        let mut changed = serde_json::to_value(settings).unwrap_or_default();
        if let Some(changed) = changed.as_object_mut() {
            let mut new = self.0;
            if let Some(values) = new.get_mut(CUSTOM).and_then(Value::as_object_mut) {
                let old = changed.get(CUSTOM).and_then(Value::as_object).cloned();
                let mut all = old.unwrap_or_default();
                all.append(values);
                *values = all;
            }
            changed.extend(new);
        }
        let mut changed: SessionSettings = from_json(changed.to_string().as_bytes(), "")?;
        changed.check_lengths(settings)?;
        if changed.model != settings.model {
            changed.base_url = None;
        }
        Ok(changed)
    }
}

impl JsonSchema for SettingsChange {
    fn schema_name() -> Cow<'static, str> {
        "SettingsChange".into()
    }

    /// Returns the changeable properties of [`SessionSettings`].
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = SessionSettings::json_schema(generator);
        if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            properties.retain(|name, _| changeable().any(|known| known == *name));
        }
        schema.insert("additionalProperties".into(), false.into());
        let description = "New values of settings: `null` leaves a setting to the agent, and what \
                           is missing stays as it is.";
        schema.insert("description".into(), description.into());
        schema
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn change(change: Value, settings: Value) -> Result<Value, AgentRejection> {
        let change: SettingsChange = serde_json::from_value(change).unwrap();
        let changed = change.apply(&SessionSettings::from_stored(Some(&settings)));
        changed.map(|changed| serde_json::to_value(changed).unwrap())
    }

    #[test]
    fn what_is_missing_stays_and_null_removes() {
        let settings = json!({ "name": "Sheep", "maxTurns": 3, "workDir": "/w", "guard": true });
        assert_eq!(
            change(json!({ "maxTurns": null, "thinking": "low" }), settings).unwrap(),
            json!({ "name": "Sheep", "workDir": "/w", "guard": true, "thinking": "low" })
        );
    }

    #[test]
    fn the_apps_own_settings_change_one_by_one() {
        let settings = json!({ "agent": "a", "custom": { "region": "eu", "limit": 1 } });
        for (custom, expected) in [
            (json!({ "limit": 2 }), json!({ "region": "eu", "limit": 2 })),
            (json!({ "limit": null }), json!({ "region": "eu" })),
            (json!({}), settings["custom"].clone()),
        ] {
            let changed = change(json!({ "custom": custom }), settings.clone()).unwrap();
            assert_eq!(changed["custom"], expected, "{custom}");
        }
        let changed = change(json!({ "custom": null }), settings.clone()).unwrap();
        assert_eq!(changed, json!({ "agent": "a" }));
        let error = change(json!({ "custom": 1 }), settings).unwrap_err();
        assert_eq!(error.path(), Some("/custom"), "{error}");
    }

    #[test]
    fn an_address_stays_with_its_model_only() {
        let settings = json!({ "model": "a/b", "baseUrl": "http://x/v1" });
        let same = change(json!({ "model": "a/b" }), settings.clone()).unwrap();
        assert_eq!(same, settings);
        let other = change(json!({ "model": "a/c" }), settings).unwrap();
        assert_eq!(other, json!({ "model": "a/c" }));
    }

    /// C279: A longer value from before the limit can stay, but cannot be set.
    #[test]
    fn names_and_models_have_a_maximum_length() {
        for (setting, max) in [("name", 200), ("model", 500)] {
            let max_text = "ß".repeat(max);
            change(json!({ setting: max_text }), json!({})).unwrap();
            let long = json!({ setting: format!("{max_text}s") });
            let error = change(long.clone(), json!({})).unwrap_err();
            assert_eq!(error.path(), Some(&*format!("/{setting}")), "{error}");
            assert_eq!(change(json!({ "thinking": "low" }), long).unwrap()["thinking"], "low");
        }
    }

    #[test]
    fn errors_name_the_setting() {
        for (name, value) in [
            ("workDir", json!("/")),
            ("baseUrl", json!("http://x")),
            ("agent", json!("a")),
            ("maxTurns", json!(0)),
            ("thinking", json!("hard")),
            ("approve", json!("all")),
            ("max_turns", json!(1)),
        ] {
            let error = change(json!({ name: value }), json!({})).unwrap_err();
            assert_eq!(error.path(), Some(&*format!("/{name}")), "{error}");
        }
    }
}
