//! The catalogue of models, with the user's own list.

use std::path::PathBuf;

use loopwright_providers::Catalogue;

use crate::environment::config_directory;
use crate::error::StartError;
use crate::output;

/// Returns the built-in catalogue with the user's own list: the given file, else the one in the
/// configuration directory.
///
/// # Errors
///
/// Fails if the given file is invalid. If the file in the configuration directory is invalid, an
/// error is printed and the file is ignored.
pub(crate) fn catalogue(file: Option<&PathBuf>) -> Result<Catalogue, StartError> {
    let mut catalogue = Catalogue::built_in();
    if let Some(file) = file {
        catalogue.add_file(file)?;
    } else if let Some(Err(why)) = default_models_file().map(|file| catalogue.add_file(file)) {
        output::error(&format!("{} The file is ignored until then.", why.message));
    }
    Ok(catalogue)
}

/// Returns the list of models in the configuration directory, if it exists.
pub(crate) fn default_models_file() -> Option<PathBuf> {
    config_directory().map(|directory| directory.join("models.toml")).filter(|file| file.exists())
}
