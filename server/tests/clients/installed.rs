//! [`clients`]: the directory of the protocols' official clients and servers. Tests of other crates
//! also include this file as a module.

use std::path::{Path, PathBuf};

/// Returns the directory that `.ci/clients/install` has filled.
pub(crate) fn clients() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"));
    let clients = target.join("clients");
    let is_installed = clients.join("package.json.installed").is_file();
    assert!(is_installed, "no clients in {}: run .ci/clients/install", clients.display());
    clients.canonicalize().unwrap()
}
