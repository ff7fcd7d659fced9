//! Removal of directories that commands have written, at any depth of nesting.

use std::io;
use std::path::Path;

use cap_std::fs::Dir;

use super::random::random;

/// Removes everything in a directory, as far as possible.
///
/// Uses a loop: a command can nest directories so deeply that recursion, as in
/// [`std::fs::remove_dir_all`], overflows the stack or opens too many files.
pub(super) fn remove_contents(dir: &Dir) -> io::Result<()> {
    loop {
        let (mut has_removed, mut result) = (false, Ok(()));
        for entry in dir.entries()? {
            match remove(dir, Path::new(&entry?.file_name())) {
                Ok(()) => has_removed = true,
                Err(why) => result = Err(why),
            }
        }
        if !has_removed {
            return result;
        }
    }
}

/// Removes a file or a directory. Directories in it are moved to `dir` first.
fn remove(dir: &Dir, path: &Path) -> io::Result<()> {
    if !dir.symlink_metadata(path)?.is_dir() {
        return dir.remove_file(path);
    }
    permit_changes(dir, path);
    for entry in dir.read_dir(path)? {
        let entry = entry?;
        let child = path.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            permit_changes(dir, &child); // else it cannot be moved
            dir.rename(child, dir, format!("{:016x}", random()))?;
        } else {
            dir.remove_file(child)?;
        }
    }
    dir.remove_dir(path)
}

/// Lets this user change a directory. If this fails, the following operation reports why.
fn permit_changes(dir: &Dir, path: &Path) {
    #[cfg(unix)]
    let _ = dir.set_permissions(path, cap_std::fs::PermissionsExt::from_mode(0o700));
    #[cfg(not(unix))]
    let _ = (dir, path);
}

#[cfg(test)]
mod tests {
    use cap_std::ambient_authority;

    use super::*;

    /// C438: Directories are removed even if a command has nested them deeply.
    #[test]
    fn directories_that_are_nested_deep_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let dir = Dir::open_ambient_dir(root.path(), ambient_authority()).unwrap();
        // From the inside out, so that no path is long.
        dir.create_dir("0").unwrap();
        for n in 1..20_000 {
            dir.create_dir(n.to_string()).unwrap();
            dir.rename((n - 1).to_string(), &dir, format!("{n}/d")).unwrap();
        }
        dir.write("file", "").unwrap();
        dir.create_dir_all("a/b").unwrap();
        dir.write("a/b/file", "").unwrap();
        #[cfg(unix)]
        {
            dir.symlink("/", "a/link").ok();
            dir.set_permissions("a/b", cap_std::fs::PermissionsExt::from_mode(0)).unwrap();
        }
        remove_contents(&dir).unwrap();
        assert_eq!(dir.entries().unwrap().count(), 0);
    }
}
