//! The patterns are short, and the table of `docs/guide/src/pattern-library.md` has their lines.

use std::fs;
use std::path::Path;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The maximum number of lines of a pattern.
const MAX_LINES: usize = 60;

/// The modules that several patterns share.
const HELPERS: [&str; 1] = ["vote"];

fn read(path: &str) -> String {
    let path = Path::new(ROOT).join(path);
    fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// Returns the number of lines without blank lines, comments, imports, modules and unit tests.
fn count(text: &str) -> usize {
    let mut in_import = false;
    let is_code = |line: &&str| {
        let is_import =
            in_import || ["use ", "pub use ", "mod "].iter().any(|start| line.starts_with(start));
        in_import = is_import && !line.ends_with(';');
        !is_import && !line.is_empty() && !line.starts_with("//")
    };
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    text.lines().map(str::trim).filter(is_code).count()
}

/// Returns the lines of a module, and its lines including the files of its folder and the helpers
/// that it uses.
fn count_module(module: &str) -> (usize, usize) {
    let text = read(&format!("src/{module}.rs"));
    let lines = count(&text);
    let folder = fs::read_dir(Path::new(ROOT).join("src").join(module));
    let others = folder.into_iter().flatten().map(|file| fs::read_to_string(file.unwrap().path()));
    let helpers = HELPERS.into_iter().filter(|helper| text.contains(&format!("crate::{helper}::")));
    let helpers = helpers.map(|helper| count(&read(&format!("src/{helper}.rs"))));
    let others = others.map(|text| count(&text.unwrap()));
    (lines, others.chain(helpers).chain([lines]).sum())
}

/// Returns the modules of the table with the lines that it states.
fn rows() -> Vec<(String, (usize, usize))> {
    let page = read("../docs/guide/src/pattern-library.md");
    let rows = page.lines().filter(|line| line.contains("`](../../../patterns/src/"));
    let row = rows.map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let file =
            cells[1].split("(../../../patterns/src/").nth(1).unwrap().trim_end_matches(".rs)");
        (file.to_owned(), (cells[2].parse().unwrap(), cells[3].parse().unwrap()))
    });
    row.collect()
}

/// C195: Every pattern has at most 60 lines.
#[test]
fn every_pattern_is_in_the_table_with_its_lines_and_has_at_most_sixty() {
    let modules = read("src/lib.rs");
    let modules = modules.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
    let modules = modules.filter(|module| !HELPERS.contains(module));
    let mut counted: Vec<_> =
        modules.map(|module| (module.to_owned(), count_module(module))).collect();
    let mut stated = rows();
    counted.sort();
    stated.sort();
    assert_eq!(stated, counted);
    assert_eq!(counted.len(), 18);
    let long: Vec<_> = counted.iter().filter(|(_, (lines, _))| *lines > MAX_LINES).collect();
    assert!(long.is_empty(), "longer than {MAX_LINES} lines: {long:?}");
}

#[test]
fn comments_blank_lines_and_imports_are_not_counted() {
    let text =
        "//! a\nmod b;\nuse c::{\n    d,\n};\npub use e::F;\n\n/// g\nfn h() {\n    i(); // j\n}\n";
    assert_eq!(count(text), 3);
}
