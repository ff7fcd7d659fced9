//! The directories that clients may work in.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use loopwright_tools::Workspace;

use crate::config::ConfigError;
use crate::error::{ApiError, Kind};

/// The directories that clients may work in, and in those below them. Clones are the same.
#[derive(Clone)]
pub(crate) struct Roots(Arc<[Root]>);

struct Root {
    workspace: Workspace,
    /// As the operator wrote it, absolute.
    path: PathBuf,
    /// Without symbolic links.
    real: PathBuf,
}

impl Roots {
    /// These directories, which must exist.
    pub(crate) fn open(roots: &[PathBuf]) -> Result<Self, ConfigError> {
        let open = |root: &PathBuf| {
            let fail = |why: &dyn std::fmt::Display| {
                ConfigError(format!("The root {} cannot be used: {why}.", root.display()))
            };
            let real = std::fs::canonicalize(root).map_err(|why| fail(&why))?;
            let workspace = Workspace::open(&real).map_err(|why| fail(&why))?;
            Ok(Root { path: workspace.root().to_owned(), workspace, real })
        };
        Ok(Roots(roots.iter().map(open).collect::<Result<_, _>>()?))
    }

    /// The workspace in the directory that a client names; a relative path starts at the first
    /// root.
    pub(crate) async fn workspace(&self, dir: String) -> Result<Workspace, ApiError> {
        let roots = self.clone();
        let found = tokio::task::spawn_blocking(move || roots.find(&dir)).await;
        found.map_err(|_| ApiError::new(Kind::Internal, "The directory could not be looked at."))?
    }

    fn find(&self, dir: &str) -> Result<Workspace, ApiError> {
        let wrong = |why: &str| ApiError::at("/workDir", why);
        let outside = || {
            wrong(
                "This directory is outside of those that this server works in (see its `--root`).",
            )
        };
        let asked = match self.0.first() {
            _ if dir.is_empty() => return Err(wrong("There is no directory: say where to work.")),
            Some(first) => first.real.join(dir),
            None => return Err(outside()),
        };
        // Nothing is told of what is outside, not even whether it is there.
        let Ok(real) = std::fs::canonicalize(&asked) else {
            let plain = !asked.components().any(|part| part == std::path::Component::ParentDir);
            let below = self
                .0
                .iter()
                .any(|root| asked.starts_with(&root.real) || asked.starts_with(&root.path));
            return Err(if plain && below {
                wrong("This directory does not exist.")
            } else {
                outside()
            });
        };
        let root = self.0.iter().find(|root| real.starts_with(&root.real)).ok_or_else(outside)?;
        if !real.is_dir() {
            return Err(wrong("This is not a directory."));
        }
        // Opened from the root on: whatever is swapped for a link meanwhile, it stays below.
        let inside = real.strip_prefix(&root.real).unwrap_or(Path::new("."));
        let inside = inside
            .to_str()
            .ok_or_else(|| wrong("The name of this directory is not valid UTF-8."))?;
        root.workspace.subdirectory(inside).map_err(|_| outside())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_directory_is_in_a_root_or_refused() {
        let (root, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = root.path().display().to_string();
        std::fs::create_dir(root.path().join("in")).unwrap();
        std::fs::write(root.path().join("file"), "").unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), root.path().join("out")).unwrap();
        std::os::unix::fs::symlink(root.path(), elsewhere.path().join("back")).unwrap();
        let roots = Roots::open(&[root.path().to_owned()]).unwrap();
        let real = std::fs::canonicalize(root.path()).unwrap();
        let back = elsewhere.path().join("back/in").display().to_string();
        for (dir, found) in
            [("in", "in"), (".", ""), (&format!("{path}/in"), "in"), (&back, "in"), ("in/..", "")]
        {
            assert_eq!(
                roots.find(dir).unwrap().root(),
                real.join(found).components().as_path(),
                "{dir}"
            );
        }
        let sibling = format!("{path}-sibling");
        for dir in [
            "",
            "missing",
            "file",
            "out",
            "..",
            "/",
            "/etc",
            "in/../..",
            &sibling,
            "a\0b",
            "out/nothing",
            "~",
        ] {
            assert!(roots.find(dir).is_err(), "{dir}");
        }
        let told = |dir: &str| format!("{:?}", roots.find(dir).unwrap_err());
        assert_eq!(
            told("/etc/passwd"),
            told("/etc/no-such-file"),
            "nothing is told of what is outside"
        );
        assert!(
            told("missing").contains("does not exist") && told("file").contains("not a directory")
        );
    }
}
