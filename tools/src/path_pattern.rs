//! [`PathPattern`]: globs over the paths of a walk.

use std::path::Path;

use globset::GlobMatcher;
use loopwright_core::ToolError;

use crate::error::printable;
use crate::glob;

/// A compiled glob. Without `/`, it is matched against file names in every directory.
pub(crate) struct PathPattern {
    matcher: GlobMatcher,
    names_only: bool,
}

impl PathPattern {
    pub(crate) fn new(pattern: &str) -> Result<Self, ToolError> {
        let bad = |why: String| {
            ToolError::Failed(format!("the pattern `{}` is not usable: {why}", printable(pattern)))
        };
        let plain = pattern.strip_prefix("./").unwrap_or(pattern);
        if plain.is_empty() {
            return Err(bad("it is empty. `**` matches every file".into()));
        }
        if plain.starts_with('/') || plain.split('/').any(|part| part == "..") {
            let why = "it is matched against paths below `path`, so it can neither begin with `/` \
                       nor contain `..`";
            return Err(bad(why.into()));
        }
        let matcher = glob::compile(plain, true).map_err(bad)?;
        Ok(PathPattern { matcher, names_only: !plain.contains('/') && plain != "**" })
    }

    /// Returns whether the pattern matches this path.
    pub(crate) fn matches(&self, path: &Path) -> bool {
        match path.file_name() {
            Some(name) if self.names_only => self.matcher.is_match(name),
            _ => self.matcher.is_match(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_with_a_slash_matches_paths_and_one_without_matches_names() {
        let table = [
            ("*.rs", "a.rs", true),
            ("*.rs", "deep/er/a.rs", true),
            ("*.rs", "a.rs/b", false),
            ("*.{rs,toml}", "x/Cargo.toml", true),
            ("src/*.rs", "src/a.rs", true),
            ("./src/*.rs", "src/a.rs", true),
            ("src/*.rs", "src/deep/a.rs", false),
            ("src/*.rs", "x/src/a.rs", false),
            ("src/**/*.rs", "src/a.rs", true),
            ("src/**/*.rs", "src/deep/er/a.rs", true),
            ("**/test_*", "a/test_b", true),
            ("**", "a/b/c", true),
            ("[A-Z]*", "deep/Makefile", true),
        ];
        for (pattern, path, wanted) in table {
            assert_eq!(
                PathPattern::new(pattern).unwrap().matches(Path::new(path)),
                wanted,
                "{pattern} {path}"
            );
        }
    }

    #[test]
    fn patterns_that_can_never_match_are_refused() {
        for (pattern, why) in
            [("", "is empty"), ("/etc/*", "below `path`"), ("../*", "`..`"), ("[a", "not usable")]
        {
            let error = PathPattern::new(pattern).err().unwrap().to_string();
            assert!(error.contains(why), "{pattern}: {error}");
        }
    }
}
