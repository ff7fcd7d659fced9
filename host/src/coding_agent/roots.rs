//! The directories that clients may work in.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use loopwright_core::error::Failure;
use loopwright_tools::Workspace;

use crate::error::ConfigError;
use crate::rejection::AgentRejection;

/// The directories that clients may work in, with their subdirectories. Clones share them.
#[derive(Clone)]
pub(super) struct Roots(Arc<[Root]>);

struct Root {
    workspace: Workspace,
    /// The absolute path, as the operator wrote it.
    path: PathBuf,
    /// The path without symbolic links.
    real: PathBuf,
}

impl Roots {
    /// Opens these directories. Fails if one is not a directory.
    pub(super) fn open(roots: &[PathBuf]) -> Result<Self, ConfigError> {
        let open = |root: &PathBuf| {
            let fail = |error: Box<dyn Error + Send + Sync>| {
                let why = format!("The root {} cannot be used: {error}.", root.display());
                ConfigError::new(Failure::new(why).with_source(error))
            };
            let real = std::fs::canonicalize(root).map_err(|error| fail(error.into()))?;
            let workspace = Workspace::open(&real).map_err(|error| fail(error.into()))?;
            Ok(Root { path: workspace.root().to_owned(), workspace, real })
        };
        Ok(Roots(roots.iter().map(open).collect::<Result<_, _>>()?))
    }

    /// Opens the workspace in the directory that a client names. A relative path starts at the
    /// first root.
    pub(super) async fn workspace(&self, dir: String) -> Result<Workspace, AgentRejection> {
        let roots = self.clone();
        let opened = tokio::task::spawn_blocking(move || roots.find(&dir)).await;
        opened.map_err(|_| AgentRejection::internal("The directory could not be opened."))?
    }

    /// Returns the absolute path of the directory that a client names, without accessing it.
    pub(super) fn absolute(&self, dir: Option<&str>) -> Option<String> {
        let first = &self.0.first()?.real;
        let path: PathBuf = first.join(dir.unwrap_or(".")).components().collect();
        Some(path.display().to_string())
    }

    fn find(&self, dir: &str) -> Result<Workspace, AgentRejection> {
        let reject = |why: &str| AgentRejection::bad_request("/workDir", why);
        let outside = || {
            reject(
                "This directory is outside of those that this server works in (see its `--root`).",
            )
        };
        let requested = match self.0.first() {
            _ if dir.is_empty() => return Err(reject("There is no directory: give one.")),
            Some(first) => first.real.join(dir),
            None => return Err(outside()),
        };
        // Errors disclose nothing outside the roots, not even whether it exists.
        let Ok(real) = std::fs::canonicalize(&requested) else {
            let parent = std::path::Component::ParentDir;
            let plain = !requested.components().any(|component| component == parent);
            let below = self
                .0
                .iter()
                .any(|root| requested.starts_with(&root.real) || requested.starts_with(&root.path));
            return Err(match plain && below {
                true => reject("This directory does not exist."),
                false => outside(),
            });
        };
        let root = self.0.iter().find(|root| real.starts_with(&root.real)).ok_or_else(outside)?;
        if !real.is_dir() {
            return Err(reject("This is not a directory."));
        }
        // Opened relative to the root, so a part that becomes a link meanwhile cannot lead outside.
        let inside = real.strip_prefix(&root.real).unwrap_or(Path::new("."));
        let inside = inside
            .to_str()
            .ok_or_else(|| reject("The name of this directory is not valid UTF-8."))?;
        root.workspace.subdirectory(inside).map_err(|_| outside())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_directory_is_in_a_root_or_refused() {
        let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = root.path().display().to_string();
        std::fs::create_dir(root.path().join("in")).unwrap();
        std::fs::write(root.path().join("file"), "").unwrap();
        std::os::unix::fs::symlink(outside.path(), root.path().join("out")).unwrap();
        std::os::unix::fs::symlink(root.path(), outside.path().join("back")).unwrap();
        let roots = Roots::open(&[root.path().to_owned()]).unwrap();
        let real = std::fs::canonicalize(root.path()).unwrap();
        let back = outside.path().join("back/in").display().to_string();
        for (dir, expected) in
            [("in", "in"), (".", ""), (&format!("{path}/in"), "in"), (&back, "in"), ("in/..", "")]
        {
            assert_eq!(
                roots.find(dir).unwrap().root(),
                real.join(expected).components().as_path(),
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
        let error = |dir: &str| format!("{:?}", roots.find(dir).unwrap_err());
        assert_eq!(
            error("/etc/passwd"),
            error("/etc/no-such-file"),
            "the error does not say what exists outside"
        );
        assert!(
            error("missing").contains("does not exist")
                && error("file").contains("not a directory")
        );
    }
}
