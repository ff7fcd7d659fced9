//! `search_files`: the lines that match a regular expression.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkFinish, SinkMatch};
use loopwright::{Effect, Tool, ToolContext, ToolError, ToolOutput, tool_with};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::error::shown;
use crate::pattern::Pattern;
use crate::schema::strict;
use crate::workspace::{Here, Walked, Workspace, text_of};

const NAME: &str = "search_files";
const DESCRIPTION: &str = "Searches the text files of the workspace, line by line, for a regular expression (Rust's \
    syntax, as ripgrep takes it), and gives each matching line as `path:line:text`, sorted by path. Hidden files are \
    searched too; binary files, `.git` and what a .gitignore names are left out, unless `path` is in it.";

/// The most lines that are shown.
const LINES: usize = 250;
/// Bytes of a line that are shown.
const LINE_BYTES: usize = 300;
/// The longest line that is searched, in bytes: so much of a file is in memory at once.
const HELD: usize = 16 * 1024 * 1024;
/// The most memory for what is made of the pattern, in bytes, and for what it is at in each thread.
const PATTERN_BYTES: usize = 16 * 1024 * 1024;
/// Bytes of text that are shown at once.
const BYTES: usize = 50 * 1024;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// The regular expression, such as `fn \w+_test\(`. It is case-sensitive; `(?i)` at its start makes it not.
    pattern: String,
    /// The directory or file to search, as a path relative to the workspace; all of the workspace if left out.
    path: Option<String>,
    /// Search only files that match this glob, such as `*.rs` or `src/**/*.{ts,tsx}`. Without `/` it is matched
    /// against names in every directory, with one against paths below `path`.
    include: Option<String>,
}

/// The tool that searches the files of this workspace.
pub fn search_files(workspace: Workspace) -> impl Tool {
    tool_with(workspace, NAME, DESCRIPTION, async |workspace: Workspace, args: Args, cx: ToolContext| {
        workspace.off_thread(move |workspace| search(workspace, &args, &cx)).await
    })
    .effect(Effect::ReadOnly)
    .spec(|spec| strict(spec).title("Search files"))
}

/// A line that matches.
#[derive(Debug, Serialize)]
struct Line {
    line: u64,
    text: String,
}

/// The first lines by path, and how many there are.
#[derive(Default)]
struct Found {
    first: BTreeMap<PathBuf, Vec<Line>>,
    held: usize,
    lines: usize,
    files: usize,
    /// Files that turned out to be binary after a line had matched.
    cut: usize,
    unreadable: usize,
}

fn search(workspace: &Workspace, args: &Args, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
    let matcher = regex(&args.pattern)?;
    let include = args.include.as_deref().filter(|glob| !glob.is_empty()).map(Pattern::new).transpose()?;
    let found = Mutex::new(Found::default());
    let walked = workspace.walk(args.path.as_deref().unwrap_or("."), cx, || {
        let (matcher, mut searcher) = (matcher.clone(), searcher());
        let (include, found) = (&include, &found);
        move |here| {
            if here.is_file && include.as_ref().is_none_or(|include| include.matches(here.below)) {
                let hits = Hits::of(here, &mut searcher, &matcher, cx);
                if !matches!(hits, Ok(Hits { count: 0, .. })) {
                    found.lock().unwrap_or_else(PoisonError::into_inner).add(here.path, hits);
                }
            }
        }
    })?;
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(found.told(args, walked))
}

fn regex(pattern: &str) -> Result<RegexMatcher, ToolError> {
    if pattern.is_empty() {
        return Err(ToolError::Failed("the pattern is empty, which every line matches: say what to look for".into()));
    }
    let mut builder = RegexMatcherBuilder::new();
    // After `crlf`, which would forbid to look for a `\r`.
    builder.multi_line(true).crlf(true).line_terminator(Some(b'\n'));
    builder.size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_BYTES);
    let regex = builder.build(pattern);
    regex.map_err(|e| {
        let hint = match pattern.contains('\n') || pattern.contains("\\n") {
            _ if e.to_string().contains("size limit") => {
                "It would take too much memory: repeat less in it, or search for a part of it"
            }
            true => "It is matched line by line, so it cannot contain a line end: search for one of the lines",
            false => "To find characters such as ( [ { . * + ? | as they are, put a backslash before them",
        };
        ToolError::Failed(format!("the pattern `{}` is not usable: {e}. {hint}", shown(pattern)))
    })
}

fn searcher() -> Searcher {
    SearcherBuilder::new().binary_detection(BinaryDetection::quit(0)).line_number(true).heap_limit(Some(HELD)).build()
}

/// The lines of one file that match.
#[derive(Default)]
struct Hits {
    first: Vec<Line>,
    count: usize,
    binary: bool,
}

impl Hits {
    fn of(here: &Here<'_>, searcher: &mut Searcher, matcher: &RegexMatcher, cx: &ToolContext) -> io::Result<Self> {
        let mut hits = Hits::default();
        searcher.search_reader(matcher, Cancellable { input: here.open()?, cx }, &mut hits)?;
        Ok(hits)
    }
}

impl Sink for Hits {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        self.count += 1;
        if self.first.len() < LINES {
            self.first.push(Line { line: found.line_number().unwrap_or(0), text: excerpt(found.bytes()) });
        }
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, end: &SinkFinish) -> io::Result<()> {
        self.binary = end.binary_byte_offset().is_some();
        Ok(())
    }
}

/// A line as it is shown: without its end, and not endlessly long.
fn excerpt(line: &[u8]) -> String {
    let cut = line.len() > LINE_BYTES + 2;
    let line = String::from_utf8_lossy(&line[..line.len().min(LINE_BYTES + 2)]);
    let line = line.trim_end_matches(['\r', '\n']);
    if cut { format!("{}…", line.trim_end_matches('\u{fffd}')) } else { line.to_owned() }
}

/// Reads until the call is cancelled: a single file can be longer than anyone waits for.
struct Cancellable<'a, R> {
    input: R,
    cx: &'a ToolContext,
}

impl<R: Read> Read for Cancellable<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cx.is_cancelled() { Err(io::ErrorKind::Other.into()) } else { self.input.read(buffer) }
    }
}

impl Found {
    fn add(&mut self, path: &Path, hits: io::Result<Hits>) {
        let Ok(hits) = hits else {
            self.unreadable += 1;
            return;
        };
        self.lines += hits.count;
        self.files += 1;
        self.cut += usize::from(hits.binary);
        if self.held < LINES || self.first.last_key_value().is_some_and(|(last, _)| path < last.as_path()) {
            self.held += hits.first.len();
            self.first.insert(path.to_owned(), hits.first);
        }
        // The last file goes if those before it are enough.
        while let Some(last) = self.first.last_entry().filter(|last| self.held - last.get().len() >= LINES) {
            self.held -= last.remove().len();
        }
    }

    fn told(self, args: &Args, walked: Walked) -> ToolOutput {
        let path = args.path.as_deref().unwrap_or(".");
        let (mut text, mut shown_lines, mut matches) = (String::new(), 0, Vec::new());
        'all: for (file, lines) in &self.first {
            let file = text_of(file);
            for Line { line, text: content } in lines {
                if shown_lines == LINES || text.len() + file.len() + content.len() > BYTES {
                    break 'all;
                }
                text.push_str(&format!("{file}:{line}:{content}\n"));
                matches.push(json!({ "path": file, "line": line, "text": content }));
                shown_lines += 1;
            }
        }
        if self.lines == 0 {
            let include = args.include.as_deref().filter(|glob| !glob.is_empty());
            let include = include.map(|glob| format!(" in files that match `{}`", shown(glob)));
            let include = include.unwrap_or_default();
            text = format!("No line in `{}` matches `{}`{include}.\n", shown(path), shown(&args.pattern));
        } else if self.lines > shown_lines {
            text.push_str(&format!(
                "… the first {shown_lines} of {} matching lines in {} files: narrow it with `path`, `include` or a longer \
                 pattern\n",
                self.lines, self.files
            ));
        }
        match self.cut {
            0 => {}
            1 => text.push_str("… 1 file is binary: only the text at its start was searched\n"),
            n => text.push_str(&format!("… {n} files are binary: only the text at their start was searched\n")),
        }
        match self.unreadable {
            0 => {}
            1 => text.push_str("… 1 file could not be read, or has an endless line\n"),
            n => text.push_str(&format!("… {n} files could not be read, or have an endless line\n")),
        }
        text.push_str(&walked.told());
        let details = json!({
            "path": path, "pattern": args.pattern, "include": args.include, "matches": matches,
            "total_lines": self.lines, "total_files": self.files });
        ToolOutput::text(text).details(details)
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test makes its files from outside")]
mod tests {
    use std::fs;

    use loopwright::Content;
    use serde_json::Value;

    use super::*;

    async fn search(dir: &tempfile::TempDir, arguments: Value) -> Result<(String, Value), String> {
        let tool = search_files(Workspace::open(dir.path()).unwrap());
        let output = tool.call(&arguments, ToolContext::detached()).await.map_err(|e| e.to_string())?;
        let [Content::Text { text }] = &output.content[..] else { panic!("{output:?}") };
        Ok((text.clone(), output.details.unwrap()))
    }

    fn tree(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (file, content) in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        dir
    }

    #[tokio::test]
    async fn lines_come_with_path_and_number_in_order() {
        let dir = tree(&[
            ("src/b.rs", b"fn b() {}\n"),
            ("src/a.rs", b"// a\r\nfn a() {}\r\n\r\nfn aa() {}"),
            ("src/a/z.rs", b"fn z() {}\n"),
            ("README", b"fn is a word\n"),
            (".ci/run", b"# fn\n"),
            (".git/HEAD", b"fn\n"),
        ]);
        let (text, details) = search(&dir, json!({ "pattern": r"\bfn\b" })).await.unwrap();
        assert_eq!(
            text,
            ".ci/run:1:# fn\nREADME:1:fn is a word\nsrc/a/z.rs:1:fn z() {}\nsrc/a.rs:2:fn a() {}\nsrc/a.rs:4:fn aa() {}\n\
             src/b.rs:1:fn b() {}\n"
        );
        assert_eq!((&details["total_lines"], &details["total_files"]), (&json!(6), &json!(5)));
        assert_eq!(details["matches"][4], json!({ "path": "src/a.rs", "line": 4, "text": "fn aa() {}" }));
    }

    #[tokio::test]
    async fn a_line_ends_before_its_carriage_return() {
        let dir = tree(&[("f", b"word\r\nword\nword x\r\n\r\n")]);
        assert_eq!(search(&dir, json!({ "pattern": "^word$" })).await.unwrap().0, "f:1:word\nf:2:word\n");
        assert_eq!(search(&dir, json!({ "pattern": "^$" })).await.unwrap().0, "f:4:\n");
    }

    #[tokio::test]
    async fn path_and_include_narrow_it() {
        let dir =
            tree(&[("src/a.rs", b"word\n"), ("src/a.txt", b"word\n"), ("src/in/b.rs", b"word\n"), ("c.rs", b"word\n")]);
        let table = [
            (json!({ "pattern": "word", "path": "src" }), "src/a.rs:1:word\nsrc/a.txt:1:word\nsrc/in/b.rs:1:word\n"),
            (json!({ "pattern": "word", "path": "src/a.txt" }), "src/a.txt:1:word\n"),
            (json!({ "pattern": "word", "path": "src", "include": "*.rs" }), "src/a.rs:1:word\nsrc/in/b.rs:1:word\n"),
            (json!({ "pattern": "word", "path": "src", "include": "in/*.rs" }), "src/in/b.rs:1:word\n"),
            (json!({ "pattern": "^WORD$", "path": null, "include": "" }), "No line in `.` matches `^WORD$`.\n"),
            (json!({ "pattern": "(?i)^WORD$", "include": "c.*" }), "c.rs:1:word\n"),
            (json!({ "pattern": "x", "include": "*.py" }), "No line in `.` matches `x` in files that match `*.py`.\n"),
        ];
        for (arguments, wanted) in table {
            assert_eq!(search(&dir, arguments.clone()).await.unwrap().0, wanted, "{arguments}");
        }
    }

    #[tokio::test]
    async fn a_pattern_that_cannot_be_used_says_why() {
        let dir = tree(&[("f", b"x\n")]);
        let why = search(&dir, json!({ "pattern": "foo(" })).await.unwrap_err();
        assert!(why.contains("`foo(` is not usable") && why.contains("put a backslash before them"), "{why}");
        let why = search(&dir, json!({ "pattern": r"\w{5000}" })).await.unwrap_err();
        assert!(why.contains("too much memory: repeat less"), "{why}");
        let why = search(&dir, json!({ "pattern": "a\nb" })).await.unwrap_err();
        assert!(why.contains("line by line"), "{why}");
        assert!(search(&dir, json!({ "pattern": "" })).await.unwrap_err().contains("is empty"));
        assert!(search(&dir, json!({ "pattern": "x", "include": "../*" })).await.unwrap_err().contains("`..`"));
        assert!(search(&dir, json!({ "pattern": "x", "path": "gone" })).await.unwrap_err().contains("does not exist"));
    }

    #[tokio::test]
    async fn binary_and_ignored_files_are_left_out() {
        let mut late = b"word\n".to_vec();
        late.resize(200_000, b'x');
        late.extend(b"\nword\n\0\nword\n");
        let dir = tree(&[
            ("a.bin", b"word\n\0"),
            ("late", &late),
            ("out/f", b"word\n"),
            (".gitignore", b"out\n"),
            ("t", b"word\n"),
        ]);
        let (text, _) = search(&dir, json!({ "pattern": "^word" })).await.unwrap();
        assert_eq!(text, "late:1:word\nt:1:word\n… 1 file is binary: only the text at its start was searched\n");
        assert_eq!(search(&dir, json!({ "pattern": "^word", "path": "out" })).await.unwrap().0, "out/f:1:word\n");
    }

    #[tokio::test]
    async fn what_is_ignored_is_searched_from_inside() {
        let dir = tree(&[
            (".gitignore", b"target/**\nbuild/*\n*.log\n"),
            (".loopwright/output/.gitignore", b"*\n"),
            (".loopwright/output/1.txt", b"word\n"),
            ("target/debug/f", b"word\n"),
            ("build/f", b"word\n"),
            ("logs/a.log", b"word\n"),
            ("b.log/f", b"word\n"),
        ]);
        for (path, wanted) in [
            (".loopwright/output", ".loopwright/output/1.txt:1:word\n"),
            ("target", "target/debug/f:1:word\n"),
            ("target/debug", "target/debug/f:1:word\n"),
            ("build", "build/f:1:word\n"),
            ("b.log", "b.log/f:1:word\n"),
            ("logs/a.log", "logs/a.log:1:word\n"),
            ("logs", "No line in `logs` matches `word`.\n"),
            (".", "No line in `.` matches `word`.\n"),
        ] {
            assert_eq!(search(&dir, json!({ "pattern": "word", "path": path })).await.unwrap().0, wanted);
        }
    }

    #[tokio::test]
    async fn text_in_other_encodings_is_found_as_far_as_it_can_be() {
        let utf16: Vec<u8> = "\u{feff}naïve word\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let dir = tree(&[("latin1", b"na\xefve word\n"), ("utf16", &utf16), ("bom", b"\xef\xbb\xbfword\n")]);
        let (text, _) = search(&dir, json!({ "pattern": "word$" })).await.unwrap();
        assert!(text.contains("latin1:1:na\u{fffd}ve word\n") && text.contains("bom:1:"), "{text}");
    }

    #[tokio::test]
    async fn of_very_many_the_first_are_shown_with_the_totals() {
        let many = "word\n".repeat(100);
        let files: Vec<(String, &[u8])> = (0..9).rev().map(|n| (format!("f{n}"), many.as_bytes())).collect();
        let dir = tree(&files.iter().map(|(name, content)| (name.as_str(), *content)).collect::<Vec<_>>());
        let (text, details) = search(&dir, json!({ "pattern": "word" })).await.unwrap();
        assert!(text.starts_with("f0:1:word\nf0:2:word\n"));
        let word = "f2:50:word\n… the first 250 of 900 matching lines in 9 files: narrow it with `path`, `include` or a longer \
                    pattern\n";
        assert!(text.ends_with(word), "{}", &text[text.len() - 200..]);
        assert_eq!((details["matches"].as_array().unwrap().len(), &details["total_lines"]), (LINES, &json!(900)));
    }

    #[tokio::test]
    async fn a_line_of_any_length_is_cut_at_a_character() {
        let long = format!("word {}\nword\n", "é".repeat(100_000));
        let dir = tree(&[("f", long.as_bytes())]);
        let (text, _) = search(&dir, json!({ "pattern": "word" })).await.unwrap();
        assert!(text.len() < 350 && text.contains("é…\nf:2:word\n") && !text.contains('\u{fffd}'), "{text}");
    }

    #[tokio::test]
    async fn a_line_without_end_is_not_held() {
        let dir = tree(&[("a", b"word\n"), ("endless", &vec![b'x'; HELD + 1])]);
        let (text, _) = search(&dir, json!({ "pattern": "word" })).await.unwrap();
        assert_eq!(text, "a:1:word\n… 1 file could not be read, or has an endless line\n");
    }

    #[test]
    fn memory_is_bounded_whatever_is_found() {
        let mut found = Found::default();
        for n in (0..2_000).rev() {
            let first = (0..n % 7).map(|line| Line { line: line as u64, text: String::new() }).collect();
            found.add(Path::new(&format!("{n:05}")), Ok(Hits { first, count: n % 7, binary: false }));
            assert!(found.held < LINES + 7 && found.held == found.first.values().map(Vec::len).sum::<usize>());
        }
        assert_eq!(found.first.keys().next().unwrap(), Path::new("00000"));
        assert!(found.held >= LINES);
    }

    #[test]
    fn it_runs_by_itself() {
        let dir = tempfile::tempdir().unwrap();
        let tool = search_files(Workspace::open(dir.path()).unwrap());
        let spec = tool.spec();
        assert_eq!((spec.effect, spec.sequential), (Effect::ReadOnly, false));
        assert_eq!(spec.schema["required"], json!(["pattern"]));
    }
}
