//! [`SystemPaths`]: the system's paths that commands may read.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The directories from which commands may read and run programs.
const SYSTEM_DIRS: [&str; 16] = [
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

/// Directories in which administrators store secrets. For root, the permissions of each entry are
/// checked. The rest of `/usr` comes from packages, and checking it would take too long.
const CHECKED_DIRS: [&str; 3] = ["/etc", "/opt", "/usr/local"];
/// The maximum depth of checked entries. Deeper directories are treated as not public.
const MAX_DEPTH: usize = 40;

/// Readable paths, each with everything below it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SystemPaths {
    pub(super) paths: Vec<PathBuf>,
    /// Symbolic links next to `paths`. Following them needs no permission, but a new view of the
    /// file system must contain them.
    pub(super) links: Vec<PathBuf>,
}

/// Returns the system's directories.
///
/// Root owns all files in them, including secrets, and may read them without any capability. For
/// root, files that are not readable by everybody are therefore left out of [`CHECKED_DIRS`].
pub(super) fn readable() -> SystemPaths {
    let all = SYSTEM_DIRS.iter().map(PathBuf::from);
    if !rustix::process::geteuid().is_root() {
        return SystemPaths { paths: all.collect(), links: Vec::new() };
    }
    let mut readable = SystemPaths::default();
    all.for_each(|path| readable.add_checked(&path, &CHECKED_DIRS.map(Path::new)));
    readable
}

impl SystemPaths {
    /// Adds a directory, without the entries of `checked` directories that are not public.
    fn add_checked(&mut self, dir: &Path, checked: &[&Path]) {
        if checked.contains(&dir) {
            if dir.metadata().is_ok_and(|metadata| metadata.mode() & 0o005 == 0o005) {
                self.add_public(dir, MAX_DEPTH);
            }
        } else if !checked.iter().any(|below| below.starts_with(dir)) {
            self.paths.push(dir.to_owned());
        } else {
            let paths = self.paths.len();
            let links = self.links.len();
            let entries = std::fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
            for path in entries.map(|entry| entry.path()) {
                match path.is_symlink() {
                    true => self.links.push(path),
                    false => self.add_checked(&path, checked),
                }
            }
            // If no entry is left out, the directory itself is added, so that it can be listed.
            let whole = |below: &&Path| self.paths.iter().any(|path| path == below);
            if checked.iter().filter(|below| below.starts_with(dir) && below.is_dir()).all(whole) {
                self.paths.truncate(paths);
                self.links.truncate(links);
                self.paths.push(dir.to_owned());
            }
        }
    }

    /// Adds the entries of a directory that everybody may read. If these are all entries, adds the
    /// directory itself and returns `true`.
    fn add_public(&mut self, dir: &Path, depth: usize) -> bool {
        let Ok(entries) = std::fs::read_dir(dir) else {
            return false;
        };
        let mut all_public = true;
        let paths = self.paths.len();
        let links = self.links.len();
        for entry in entries.filter_map(Result::ok) {
            let path = entry.path();
            // The target of a link is checked in its own directory.
            let public = match path.symlink_metadata() {
                Ok(metadata) if metadata.is_symlink() => {
                    self.links.push(path);
                    true
                }
                Ok(metadata) if metadata.is_dir() => {
                    metadata.mode() & 0o005 == 0o005
                        && depth > 0
                        && self.add_public(&path, depth - 1)
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
#[allow(clippy::disallowed_methods, reason = "the test creates files")]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// The directory stands for `/usr`, with `/usr/local` in it.
    #[test]
    fn only_some_directories_are_checked() {
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
            let mut found = SystemPaths::default();
            found.add_checked(dir.path(), &[&path("local"), &path("not there"), Path::new("/")]);
            found.paths.sort();
            found
        };
        assert_eq!(found(), SystemPaths { paths: vec![dir.path().to_owned()], links: Vec::new() });
        fs::set_permissions(path("local/b/open"), PermissionsExt::from_mode(0o600)).unwrap();
        assert_eq!(
            found(),
            SystemPaths { paths: vec![path("lib"), path("local/a")], links: vec![path("lib64")] }
        );
        fs::set_permissions(path("local"), PermissionsExt::from_mode(0o700)).unwrap();
        assert_eq!(found().paths, [path("lib")]);
    }

    #[test]
    fn private_files_are_left_out_and_their_public_siblings_are_not() {
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
        let mut found = SystemPaths::default();
        assert!(!found.add_public(dir.path(), 8));
        found.paths.sort();
        assert_eq!(
            found,
            SystemPaths { paths: vec![path("a"), path("b/open")], links: vec![path("b/link")] }
        );
    }
}
