//! Globs, as the tools take them.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};
use loopwright_core::ToolError;

use crate::error::shown;

/// What a glob says of paths: one without `/` is about names, in whatever directory they are.
pub(crate) struct Pattern {
    matcher: GlobMatcher,
    of_names: bool,
}

impl Pattern {
    pub(crate) fn new(pattern: &str) -> Result<Self, ToolError> {
        let bad = |why: String| {
            ToolError::Failed(format!("the pattern `{}` is not usable: {why}", shown(pattern)))
        };
        let plain = pattern.strip_prefix("./").unwrap_or(pattern);
        if plain.is_empty() {
            return Err(bad("it is empty. `**` matches every file".into()));
        }
        if plain.starts_with('/') || plain.split('/').any(|part| part == "..") {
            let why = "it is matched against paths below `path`, so it can neither begin with `/` nor contain `..`";
            return Err(bad(why.into()));
        }
        let glob = GlobBuilder::new(plain).literal_separator(true).build();
        let matcher = glob.map_err(|e| bad(format!("{}", e.kind())))?.compile_matcher();
        Ok(Pattern { matcher, of_names: !plain.contains('/') && plain != "**" })
    }

    /// Whether it matches the file at this path.
    pub(crate) fn matches(&self, path: &Path) -> bool {
        match path.file_name() {
            Some(name) if self.of_names => self.matcher.is_match(name),
            _ => self.matcher.is_match(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_with_a_slash_is_about_paths_and_one_without_about_names() {
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
                Pattern::new(pattern).unwrap().matches(Path::new(path)),
                wanted,
                "{pattern} {path}"
            );
        }
    }

    #[test]
    fn what_can_never_match_is_refused() {
        for (pattern, why) in
            [("", "is empty"), ("/etc/*", "below `path`"), ("../*", "`..`"), ("[a", "not usable")]
        {
            let told = Pattern::new(pattern).err().unwrap().to_string();
            assert!(told.contains(why), "{pattern}: {told}");
        }
    }
}
