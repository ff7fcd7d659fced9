//! The guide in `docs/guide/`: its pages are in its table of contents, and their code is tested.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const SRC: &str = "docs/guide/src";

/// Blocks of Rust that are compiled but not run: the page, a text in the block, and the reason.
const NOT_RUN: [(&str, &str, &str); 3] = [
    (
        "apps.md",
        r#".agent("support", support).run()"#,
        "`run` reads the command line and takes over",
    ),
    ("apps.md", ".setting(CustomSetting::number(", "`run` reads the command line and takes over"),
    ("front-ends.md", "axum::serve(listener, app)", "it serves until Ctrl-C"),
];

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(path)).unwrap_or_else(|why| panic!("{path}: {why}"))
}

/// Returns the names of the pages, without the table of contents.
fn pages() -> BTreeSet<String> {
    let entries = Path::new(ROOT).join(SRC).read_dir().unwrap();
    let mut names: BTreeSet<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(names.remove("SUMMARY.md") && names.iter().all(|name| name.ends_with(".md")));
    names
}

/// A block of code: the words after its fence, and its text.
struct Block {
    info: String,
    text: String,
}

/// Returns the fenced blocks of a page.
fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for line in page.lines() {
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(info), None) => open = Some(Block { info: info.into(), text: String::new() }),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => block.text.extend([line, "\n"]),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block has no end");
    blocks
}

#[test]
fn every_page_is_in_the_table_of_contents_once() {
    let summary = read(&format!("{SRC}/SUMMARY.md"));
    let links = summary.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let listed: Vec<String> = links.map(String::from).collect();
    assert_eq!(listed.iter().cloned().collect::<BTreeSet<_>>(), pages());
    assert_eq!(listed.len(), pages().len(), "a page is listed twice");
}

/// `facade/src/guide.rs` makes tests of the blocks of each page.
#[test]
fn the_code_of_every_page_is_tested() {
    let module = read("facade/src/guide.rs");
    let tested = module.lines().filter_map(|line| line.split('"').nth(1)?.strip_suffix(".md"));
    let tested: BTreeSet<String> = tested.map(|name| format!("{name}.md")).collect();
    assert_eq!(tested, pages());
}

/// Rustdoc takes a block without a language for Rust, a reader does not.
#[test]
fn every_block_has_a_language_and_runs_if_it_is_rust() {
    let mut not_run = BTreeSet::new();
    for page in pages() {
        for Block { info, text } in blocks(&read(&format!("{SRC}/{page}"))) {
            assert!(!info.is_empty(), "{page} has a block without a language:\n{text}");
            if !info.starts_with("rust") || info == "rust" {
                continue;
            }
            let reason = NOT_RUN.iter().position(|(other, part, _)| {
                *other == page && text.contains(part) && info == "rust,no_run"
            });
            let reason = reason.unwrap_or_else(|| panic!("{page} has a block `{info}`:\n{text}"));
            not_run.insert(reason);
        }
    }
    assert_eq!(not_run.len(), NOT_RUN.len(), "a reason is of no use");
}

/// Returns the anchor of a heading, as in mdBook and in the view of a repository.
fn anchor(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Another test checks all documents for links to missing files.
#[test]
fn links_to_headings_lead_to_headings_that_exist() {
    for page in pages() {
        let text = read(&format!("{SRC}/{page}"));
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for (file, wanted) in links.filter_map(|link| link.split_once('#')) {
            let target = if file.is_empty() { page.as_str() } else { file };
            if target.contains("://") {
                continue;
            }
            let target = read(&format!("{SRC}/{target}"));
            let exists = target.lines().any(|l| l.starts_with('#') && anchor(l) == wanted);
            assert!(exists, "{page} links to {file}#{wanted}");
        }
    }
}
