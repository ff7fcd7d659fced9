//! The table of `docs/guide/src/pattern-library.md` has the numbers of lines of the tasks.

use std::fs;
use std::path::Path;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn read(path: &str) -> String {
    let path = Path::new(ROOT).join(path);
    fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// Returns the number of lines between `// [name]` and `// [/name]`, without blank lines, comments
/// and imports.
fn count(text: &str, name: &str) -> usize {
    let (start, end) = (format!("// [{name}]"), format!("// [/{name}]"));
    let counted = text.split(&*start).nth(1).and_then(|rest| rest.split(&*end).next());
    let counted = counted.unwrap_or_else(|| panic!("the lines of `{name}` are not marked"));
    let lines = counted.lines().map(str::trim);
    let code: Vec<&str> =
        lines.filter(|line| !line.is_empty() && !line.starts_with("//")).collect();
    // An import that is several lines long ends with `};`.
    let mut in_import = false;
    let is_code = |line: &&&str| {
        let is_import = in_import || line.starts_with("use ");
        in_import = is_import && !line.ends_with(';');
        !is_import
    };
    code.iter().filter(is_code).count()
}

/// The page with the table, relative to the crate.
const PAGE: &str = "../docs/guide/src/pattern-library.md";

/// Returns the rows of the table: the file of the task, its essential lines and all its lines.
fn rows(page: &str) -> Vec<(String, usize, usize)> {
    let rows = page.lines().filter(|line| line.starts_with("| ") && line.contains(".rs`"));
    let cells = rows.map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    let number = |cell: &str| cell.trim_matches('*').parse().unwrap();
    let row = cells.map(|cells| {
        let file = cells[2].trim_matches('`').to_owned();
        (file, number(cells[3]), number(cells[4]))
    });
    row.collect()
}

#[test]
fn the_page_has_the_lines_of_the_tasks() {
    let counted = rows(&read(PAGE)).into_iter().map(|(file, ..)| {
        let text = read(&format!("tests/tasks/{file}"));
        (file, count(&text, "essential"), count(&text, "pattern"))
    });
    let counted: Vec<_> = counted.collect();
    assert_eq!(rows(&read(PAGE)), counted);
}

#[test]
fn every_task_is_in_the_table() {
    let files = fs::read_dir(Path::new(ROOT).join("tests/tasks")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let others = ["cassettes.rs", "family.rs", "kit.rs", "main.rs", "table.rs"];
    let mut tasks: Vec<_> = names.filter(|name| !others.contains(&&**name)).collect();
    let mut listed: Vec<_> = rows(&read(PAGE)).into_iter().map(|(file, ..)| file).collect();
    tasks.sort();
    listed.sort();
    assert_eq!(tasks, listed);
}

#[test]
fn comments_blank_lines_and_imports_are_not_counted() {
    let text = "a\n// [pattern]\nuse a::{\n    b,\n};\nuse c;\n\n// why\nlet b = 1;\n    c\n\
                // [essential]\nd // e\n// [/essential]\n// [/pattern]\nf\n";
    assert_eq!((count(text, "pattern"), count(text, "essential")), (3, 1));
}
