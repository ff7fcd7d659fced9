//! The settings in environment variables.

use std::env;

use super::layer::{Layer, Origin};
use crate::error::StartError;
use crate::program::Program;

/// Minimum similarity, from 0 to 1, between a misspelt name and one of our variables.
const MIN_SIMILARITY: f32 = 0.75;

/// Reads the settings in environment variables.
///
/// # Errors
///
/// Fails if a variable has an invalid value.
pub(super) fn read(program: &Program) -> Result<Layer, StartError> {
    let mut layer = Layer::default();
    for key in program.keys() {
        let variable = key.variable(&program.names);
        let Some(text) = env::var_os(&variable).filter(|text| !text.is_empty()) else {
            continue;
        };
        let value = text.to_str().and_then(|text| key.kind.read(&key.kind.of_variable(text), None));
        let Some(value) = value else {
            let allowed = key.kind.allowed();
            return Err(StartError(format!(
                "The environment variable {variable} is `{}`; it must be {allowed}.",
                text.display()
            )));
        };
        layer.set(&key, value, Origin::Variable(variable));
    }
    Ok(layer)
}

/// Returns a warning for each set variable whose name is almost one of ours.
pub(super) fn misspelt_warnings(program: &Program) -> Vec<String> {
    warnings(program, env::vars_os().filter_map(|(name, _)| name.into_string().ok()))
}

/// Returns a warning for each name that is almost one of ours. Names that are less similar belong
/// to another program, or to another version.
fn warnings(program: &Program, set: impl IntoIterator<Item = String>) -> Vec<String> {
    let names = &program.names;
    let prefix = names.prefix();
    let ours = program.keys().map(|key| key.variable(names));
    let ours: Vec<String> = ours.chain(names.other_variables()).collect();
    let suffix = |name: &str| name.strip_prefix(&prefix).map(str::to_lowercase);
    let known: Vec<String> = ours.iter().filter_map(|name| suffix(name)).collect();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let warning = |name: &String| {
        let asked = suffix(name).filter(|_| !ours.contains(name))?;
        let nearest = *similar::get_close_matches(&*asked, &known, 1, MIN_SIMILARITY).first()?;
        Some(format!(
            "The environment variable {name} is unknown and has no effect; did you mean \
             {prefix}{}?",
            nearest.to_uppercase()
        ))
    };
    set.into_iter().filter_map(|name| warning(&name)).collect()
}

#[cfg(test)]
mod tests {
    use loopwright_host::CustomSetting;

    use super::*;

    /// Variables of this project's tests and of other programs are not reported.
    #[test]
    fn only_names_that_are_almost_ours_are_misspelt() {
        let program = Program {
            settings: vec![CustomSetting::text("ledger-name", "The ledger")],
            ..Program::default()
        };
        let names = &program.names;
        let misspelt = warnings(
            &program,
            [
                "LOOPWRIGHT_MODLE",
                "LOOPWRIGHT_TOKN",
                "LOOPWRIGHT_SERVE_ADR",
                "LOOPWRIGHT_LEDGR_NAME",
            ]
            .map(str::to_owned),
        );
        for (warning, meant) in misspelt.iter().zip(["MODEL", "TOKEN", "SERVE_ADDR", "LEDGER_NAME"])
        {
            assert!(warning.ends_with(&format!("did you mean LOOPWRIGHT_{meant}?")), "{warning}");
        }
        assert_eq!(misspelt.len(), 4);
        for name in [
            "MODEL",
            "MODELS",
            "TOKEN",
            "LOG",
            "CONFIG",
            "API",
            "CASES",
            "COMMAND",
            "CRASH_ORDERS",
            "FORCED_MODEL",
            "KILLS",
            "LOCAL_MODEL",
            "SEED",
            "SHARED",
            "SPEC_STORE",
            "",
        ] {
            assert_eq!(warnings(&program, [names.variable(name)]), [""; 0], "{name}");
        }
        let others = ["MODLE".to_owned(), "LOOPWRITE_MODEL".to_owned()];
        assert_eq!(warnings(&program, others), [""; 0]);
    }
}
