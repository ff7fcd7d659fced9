//! What of the system commands may read, whatever confines them.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What of the system may be read, and programs in it run.
const SYSTEM: [&str; 16] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix",
    "/gnu",
    "/snap",
    "/proc",
    "/sys",
    "/run/current-system",
    "/run/systemd/resolve",
];

/// Where administrators keep secrets, so that for root each thing in them is looked at. The rest of
/// `/usr` comes from packages, and would take long.
const LOOKED_AT: [&str; 3] = ["/etc", "/opt", "/usr/local"];
/// How deep it is looked; what lies deeper is left out where something beside it is.
const DEEP: usize = 40;

/// What may be read, each with all below it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Readable {
    pub(super) paths: Vec<PathBuf>,
    /// Links beside what is in `paths`, which nobody needs leave to follow, but which must be
    /// there.
    pub(super) links: Vec<PathBuf>,
}

/// The system's directories. Root owns all that is in them, secrets too, and may read it without
/// any capability; so for root what is in some of them is looked at, and what not everybody may
/// read is left out.
pub(super) fn readable() -> Readable {
    let all = SYSTEM.iter().map(PathBuf::from);
    if !rustix::process::geteuid().is_root() {
        return Readable { paths: all.collect(), links: Vec::new() };
    }
    let mut found = Readable::default();
    all.for_each(|path| found.add_but(&path, &LOOKED_AT.map(Path::new)));
    found
}

impl Readable {
    /// Adds all of a directory but what is closed in those of `looked_at`.
    fn add_but(&mut self, dir: &Path, looked_at: &[&Path]) {
        if looked_at.contains(&dir) {
            if dir.metadata().is_ok_and(|metadata| metadata.mode() & 0o005 == 0o005) {
                self.add_public(dir, DEEP);
            }
        } else if !looked_at.iter().any(|below| below.starts_with(dir)) {
            self.paths.push(dir.to_owned());
        } else {
            let (paths, links) = (self.paths.len(), self.links.len());
            let entries = std::fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
            for path in entries.map(|entry| entry.path()) {
                match path.is_symlink() {
                    true => self.links.push(path),
                    false => self.add_but(&path, looked_at),
                }
            }
            // All at once where nothing is left out, so that the directory itself can be listed
            // too.
            let whole = |below: &&Path| self.paths.iter().any(|path| path == below);
            if looked_at.iter().filter(|below| below.starts_with(dir) && below.is_dir()).all(whole)
            {
                self.paths.truncate(paths);
                self.links.truncate(links);
                self.paths.push(dir.to_owned());
            }
        }
    }

    /// Adds what is in a directory and open to everybody: all at once where nothing in it is
    /// closed.
    fn add_public(&mut self, dir: &Path, deep: usize) -> bool {
        let Ok(entries) = std::fs::read_dir(dir) else {
            return false;
        };
        let (mut all_public, paths, links) = (true, self.paths.len(), self.links.len());
        for entry in entries.filter_map(Result::ok) {
            let path = entry.path();
            // A link is followed when it is used, and what it leads to is looked at there.
            let public = match path.symlink_metadata() {
                Ok(metadata) if metadata.is_symlink() => {
                    self.links.push(path);
                    true
                }
                Ok(metadata) if metadata.is_dir() => {
                    metadata.mode() & 0o005 == 0o005 && deep > 0 && self.add_public(&path, deep - 1)
                }
                Ok(metadata) if metadata.is_file() && metadata.mode() & 0o004 != 0 => {
                    self.paths.push(path);
                    true
                }
                _ => false,
            };
            all_public &= public;
        }
        if all_public {
            self.paths.truncate(paths);
            self.links.truncate(links);
            self.paths.push(dir.to_owned());
        }
        all_public
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test makes files")]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// As `/usr` with `/usr/local` in it.
    #[test]
    fn only_some_directories_are_looked_at() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for (name, mode) in
            [("local/a/open", 0o644), ("local/b/open", 0o644), ("lib/closed", 0o600)]
        {
            fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            fs::write(path(name), "").unwrap();
            fs::set_permissions(path(name), PermissionsExt::from_mode(mode)).unwrap();
        }
        for dir in ["local", "local/a", "local/b", "lib"] {
            fs::set_permissions(path(dir), PermissionsExt::from_mode(0o755)).unwrap();
        }
        symlink("lib", path("lib64")).unwrap();
        let found = || {
            let mut found = Readable::default();
            found.add_but(dir.path(), &[&path("local"), &path("not there"), Path::new("/")]);
            found.paths.sort();
            found
        };
        assert_eq!(found(), Readable { paths: vec![dir.path().to_owned()], links: Vec::new() });
        fs::set_permissions(path("local/b/open"), PermissionsExt::from_mode(0o600)).unwrap();
        assert_eq!(
            found(),
            Readable { paths: vec![path("lib"), path("local/a")], links: vec![path("lib64")] }
        );
        fs::set_permissions(path("local"), PermissionsExt::from_mode(0o700)).unwrap();
        assert_eq!(found().paths, [path("lib")]);
    }

    #[test]
    fn what_is_closed_is_left_out_and_what_lies_beside_it_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for (name, mode) in
            [("a/open", 0o644), ("a/deep/open", 0o644), ("b/open", 0o644), ("b/closed", 0o640)]
        {
            fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            fs::write(path(name), "").unwrap();
            fs::set_permissions(path(name), PermissionsExt::from_mode(mode)).unwrap();
        }
        fs::create_dir(path("c")).unwrap();
        fs::write(path("c/open"), "").unwrap();
        fs::set_permissions(path("c"), PermissionsExt::from_mode(0o750)).unwrap();
        for dir in ["a", "a/deep", "b"] {
            fs::set_permissions(path(dir), PermissionsExt::from_mode(0o755)).unwrap();
        }
        symlink("open", path("a/link")).unwrap();
        symlink("closed", path("b/link")).unwrap();
        let mut found = Readable::default();
        assert!(!found.add_public(dir.path(), 8));
        found.paths.sort();
        assert_eq!(
            found,
            Readable { paths: vec![path("a"), path("b/open")], links: vec![path("b/link")] }
        );
    }
}
