//! Globs of a model, compiled within bounds.

use globset::{GlobBuilder, GlobMatcher};

/// The maximum length of a glob.
const MAX_GLOB_BYTES: usize = 4 * 1024;

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

    /// C427: A glob that is too long or too deeply nested is an error.
    #[test]
    fn hostile_globs_are_refused() {
        let braces = |levels: usize| format!("{}a{}", "{".repeat(levels), "}".repeat(levels));
        for (glob, why) in [
            (braces(1_000), "nested"),
            (braces(100_000), "more than 4096 bytes"),
            ("*a".repeat(3_000), "more than 4096 bytes"),
        ] {
            let error = compile(&glob, true).unwrap_err();
            assert!(error.contains(why), "{error:.200}");
        }
        assert!(compile(&braces(8), true).unwrap().is_match("a"));
    }
}
