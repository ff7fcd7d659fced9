//! [`clients`]: the directory of the protocols' official clients and servers.

use std::path::PathBuf;

/// Returns the directory that `.ci/clients/install` has filled.
pub fn clients() -> PathBuf {
    let clients = crate::target().join("clients");
    let is_installed = clients.join("package.json.installed").is_file();
    assert!(is_installed, "no clients in {}: run .ci/clients/install", clients.display());
    clients.canonicalize().unwrap()
}
