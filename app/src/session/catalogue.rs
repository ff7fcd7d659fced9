//! The catalogue of models, with the user's own list.

use std::path::PathBuf;

use loopwright_providers::Catalogue;

use crate::environment::Names;
use crate::error::StartError;
use crate::output;

/// Returns the built-in catalogue with the user's own list: the given file, else the one in the
/// configuration directory.
///
/// # Errors
///
/// Fails if the given file is invalid. If the file in the configuration directory is invalid, an
/// error is printed and the file is ignored.
pub(crate) fn catalogue(file: Option<&PathBuf>, names: &Names) -> Result<Catalogue, StartError> {
    let mut catalogue = Catalogue::built_in();
    if let Some(file) = file {
        catalogue.add_file(file)?;
    } else if let Some(Err(why)) = default_models_file(names).map(|file| catalogue.add_file(file)) {
        output::error(&format!("{} The file is ignored until then.", why.message));
    }
    Ok(catalogue)
}

/// Returns the list of models in the configuration directory, if it exists.
pub(crate) fn default_models_file(names: &Names) -> Option<PathBuf> {
    let file = names.config_directory()?.join("models.toml");
    Some(file).filter(|file| file.exists())
}
