//! [`PathPattern`]: globs over the paths of a walk.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};
use loopwright_core::ToolError;

use crate::error::printable;

/// The maximum length of a glob.
const MAX_GLOB_BYTES: usize = 4 * 1024;

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
        let matcher = compile(plain, true).map_err(bad)?;
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

/// Compiles a model's glob. `globset` bounds its nesting.
///
/// # Errors
///
/// Returns what is wrong with the glob.
pub(crate) fn compile(glob: &str, literal_separator: bool) -> Result<GlobMatcher, String> {
    if glob.len() > MAX_GLOB_BYTES {
        return Err(format!("it has more than {MAX_GLOB_BYTES} bytes"));
    }
    let compiled = GlobBuilder::new(glob).literal_separator(literal_separator).build();
    compiled.map(|glob| glob.compile_matcher()).map_err(|error| error.kind().to_string())
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

    /// C427: A glob that is too long or too deeply nested is an error.
    #[test]
    fn hostile_globs_are_refused() {
        let braces = |levels: usize| format!("{}a{}", "{".repeat(levels), "}".repeat(levels));
        for (glob, why) in [
            (braces(1_000), "nested"),
            (braces(100_000), "more than 4096 bytes"),
            ("*a".repeat(3_000), "more than 4096 bytes"),
        ] {
            let error = PathPattern::new(&glob).err().unwrap().to_string();
            assert!(error.contains(why), "{error:.200}");
        }
        assert!(PathPattern::new(&braces(8)).unwrap().matches(Path::new("a")));
    }
}
