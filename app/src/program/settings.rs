//! The check of the app's own settings.

use loopwright_host::CustomSetting;

use crate::args::built_in_flags;
use crate::config::keys::{Key, built_in_keys};
use crate::environment::Names;
use crate::error::StartError;

/// Checks that the app's own settings have valid names that are not built-in.
pub(super) fn check_settings(settings: &[CustomSetting], names: &Names) -> Result<(), StartError> {
    CustomSetting::check_all(settings).map_err(|why| StartError(why.to_string()))?;
    if settings.is_empty() {
        return Ok(());
    }
    let flags = built_in_flags();
    let built_in: Vec<String> = built_in_keys().map(|key| key.variable(names)).collect();
    for setting in settings {
        let (name, variable) = (setting.name(), Key::custom(setting).variable(names));
        let what = if flags.iter().any(|flag| flag == name) {
            format!("flag `--{name}`")
        } else if name == "serve" {
            "table `[serve]` of settings files".into()
        } else if built_in.contains(&variable) || names.other_variables().contains(&variable) {
            format!("environment variable `{variable}`")
        } else {
            continue;
        };
        return Err(StartError(format!(
            "The setting `{name}` of this app has the name of a built-in one, the {what}: \
             rename it."
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{CODING, Kind, Program};

    fn check(settings: &[CustomSetting]) -> Result<(), StartError> {
        let agents = vec![(CODING.into(), Kind::Coding)];
        Program { agents, settings: settings.to_vec(), ..Program::default() }.check()
    }

    /// C304: the name of an app's setting differs from all built-in flags, tables and environment
    /// variables and from its other settings, and its default value is valid.
    #[test]
    fn a_setting_has_a_name_of_its_own() {
        let text = |name: &str| CustomSetting::text(name, "Help");
        assert!(check(&[text("region"), text("max-amount")]).is_ok());
        for (name, what) in [
            ("model", "--model"),
            ("max-turns", "--max-turns"),
            ("network", "--network"),
            ("json", "--json"),     // of `run`
            ("digest", "--digest"), // of `approve`
            ("no-config", "--no-config"),
            ("help", "--help"),
            ("version", "--version"),
            ("addr", "--addr"), // of `serve`
            ("serve", "[serve]"),
            ("serve-addr", "LOOPWRIGHT_SERVE_ADDR"),
            ("log", "LOOPWRIGHT_LOG"),
            ("config", "LOOPWRIGHT_CONFIG"),
            ("webhook-secret", "LOOPWRIGHT_WEBHOOK_SECRET"),
        ] {
            let refused = check(&[text(name)]).unwrap_err().0;
            let expected = format!("The setting `{name}` of this app has the name of a built-in");
            assert!(refused.starts_with(&expected) && refused.contains(what), "{refused}");
        }
        let refused = check(&[text("region"), text("region")]).unwrap_err().0;
        assert!(refused.contains("added twice"), "{refused}");
        let refused = check(&[CustomSetting::integer("n", "").default("x")]).unwrap_err().0;
        assert!(refused.contains("invalid default value"), "{refused}");
    }
}
