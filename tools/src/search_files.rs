//! `search_files`: searches lines that match a regular expression.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use grep_matcher::Matcher as _;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkFinish, SinkMatch};
use loopwright_core::tool::Effect;
use loopwright_core::{Tool, ToolContext, ToolError, ToolOutput, tool_with};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::error::printable;
use crate::path_pattern::PathPattern;
use crate::schema::strict;
use crate::workspace::{SkippedPaths, WalkEntry, Workspace, path_text};

const NAME: &str = "search_files";
const DESCRIPTION: &str = "Searches the text files of the workspace, line by line, for a regular \
    expression (Rust syntax, as in ripgrep), and returns each matching line as `path:line:text`, \
    sorted by path. Hidden files are included; binary files, `.git` and files that a .gitignore \
    ignores are skipped, unless `path` is inside them.";

/// The maximum number of lines in a result.
const MAX_LINES: usize = 250;
/// The maximum size of a line in a result.
const MAX_LINE_BYTES: usize = 300;
/// The part of a longer line that is shown on a side of the match.
const AROUND_MATCH_BYTES: usize = 60;
/// The maximum length of a searched line, which is held in memory.
const MAX_SEARCHED_LINE_BYTES: usize = 16 * 1024 * 1024;
/// The maximum length of a pattern.
const MAX_PATTERN_BYTES: usize = 4 * 1024;
/// The maximum size of a compiled pattern. Compiling a pattern of this size takes some 50 ms.
const MAX_COMPILED_BYTES: usize = 4 * 1024 * 1024;
/// The maximum size of a search's state, per thread.
const MAX_STATE_BYTES: usize = 16 * 1024 * 1024;
/// The maximum size of the text in a result.
const MAX_TEXT_BYTES: usize = 50 * 1024;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// The regular expression, such as `fn \w+_test\(`. It is case-sensitive unless it starts with
    /// `(?i)`.
    pattern: String,
    /// The directory or file to search, as a path relative to the workspace; defaults to the whole
    /// workspace.
    path: Option<String>,
    /// Search only files that match this glob, such as `*.rs` or `src/**/*.{ts,tsx}`. Without `/`
    /// it is matched against file names in every directory, with `/` against paths below `path`.
    include: Option<String>,
}

/// Creates the tool `search_files`, which searches the files of the workspace.
pub fn search_files(workspace: Workspace) -> impl Tool {
    tool_with(
        workspace,
        NAME,
        DESCRIPTION,
        async |workspace: Workspace, args: Args, cx: ToolContext| {
            workspace.off_thread(move |workspace| search(workspace, &args, &cx)).await
        },
    )
    .effect(Effect::ReadOnly)
    .spec(|spec| strict(spec).title("Search files"))
}

/// A matching line.
#[derive(Debug, Serialize)]
struct Line {
    line: u64,
    text: String,
}

/// The first matching lines by path, and the total numbers.
#[derive(Default)]
struct Matches {
    first: BTreeMap<PathBuf, Vec<Line>>,
    /// The number of lines in `first`.
    held_lines: usize,
    total_lines: usize,
    total_files: usize,
    /// The number of binary files, of which only the text at the start was searched: those with a
    /// matching line, and the others.
    binary_files: usize,
    binary_files_without_match: usize,
    unreadable_files: usize,
}

fn search(workspace: &Workspace, args: &Args, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
    let matcher = regex(&args.pattern)?;
    let include = args
        .include
        .as_deref()
        .filter(|glob| !glob.is_empty())
        .map(PathPattern::new)
        .transpose()?;
    let matches = Mutex::new(Matches::default());
    let skipped = workspace.walk(args.path.as_deref().unwrap_or("."), cx, || {
        let matcher = matcher.clone();
        let mut searcher = searcher();
        let include = &include;
        let matches = &matches;
        move |entry| {
            if entry.is_file && include.as_ref().is_none_or(|glob| glob.matches(entry.below)) {
                let in_file = FileMatches::search(entry, &mut searcher, &matcher, cx);
                if !matches!(in_file, Ok(FileMatches { count: 0, binary: false, .. })) {
                    matches.lock().unwrap_or_else(PoisonError::into_inner).add(entry.path, in_file);
                }
            }
        }
    })?;
    let matches = matches.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(matches.report(args, skipped))
}

fn regex(pattern: &str) -> Result<RegexMatcher, ToolError> {
    if pattern.is_empty() {
        return Err(ToolError::Failed(
            "the pattern is empty and would match every line: give the text to search for".into(),
        ));
    }
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err(ToolError::Failed(format!(
            "the pattern has more than {MAX_PATTERN_BYTES} bytes: search for a part of it"
        )));
    }
    let mut builder = RegexMatcherBuilder::new();
    // Must come after `crlf`, which would forbid a `\r` in the pattern.
    builder.multi_line(true).crlf(true).line_terminator(Some(b'\n'));
    builder.size_limit(MAX_COMPILED_BYTES).dfa_size_limit(MAX_STATE_BYTES);
    let regex = builder.build(pattern);
    regex.map_err(|e| {
        let hint = match pattern.contains('\n') || pattern.contains("\\n") {
            _ if e.to_string().contains("size limit") => {
                "It would need too much memory: use fewer repetitions, or search for a part of it"
            }
            true => {
                "It is matched line by line, so it cannot contain a line end: search for one of \
                 the lines"
            }
            false => {
                "To match characters such as ( [ { . * + ? | literally, put a backslash before them"
            }
        };
        ToolError::Failed(format!(
            "the pattern `{}` is not usable: {e}. {hint}",
            printable(pattern)
        ))
    })
}

fn searcher() -> Searcher {
    SearcherBuilder::new()
        .binary_detection(BinaryDetection::quit(0))
        .line_number(true)
        .heap_limit(Some(MAX_SEARCHED_LINE_BYTES))
        .build()
}

/// The matching lines of one file.
struct FileMatches<'m> {
    matcher: &'m RegexMatcher,
    first: Vec<Line>,
    count: usize,
    binary: bool,
}

impl<'m> FileMatches<'m> {
    fn search(
        entry: &WalkEntry<'_>,
        searcher: &mut Searcher,
        matcher: &'m RegexMatcher,
        cx: &ToolContext,
    ) -> io::Result<Self> {
        let mut matches = FileMatches { matcher, first: Vec::new(), count: 0, binary: false };
        let input = Cancellable { input: entry.open()?, cx };
        searcher.search_reader(matcher, input, &mut matches)?;
        Ok(matches)
    }
}

impl Sink for FileMatches<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, matched: &SinkMatch<'_>) -> io::Result<bool> {
        self.count += 1;
        if self.first.len() < MAX_LINES {
            let (line, bytes) = (matched.line_number().unwrap_or(0), matched.bytes());
            let found = self.matcher.find(bytes).ok().flatten();
            let text = excerpt(bytes, found.map_or(0, |found| found.start()));
            self.first.push(Line { line, text });
        }
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, end: &SinkFinish) -> io::Result<()> {
        self.binary = end.binary_byte_offset().is_some();
        Ok(())
    }
}

/// Returns the part of a line around its match, without the line end.
fn excerpt(line: &[u8], found_at: usize) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let start = match found_at + AROUND_MATCH_BYTES <= MAX_LINE_BYTES {
        true => 0,
        false => (found_at - AROUND_MATCH_BYTES).min(line.len().saturating_sub(MAX_LINE_BYTES)),
    };
    let end = line.len().min(start + MAX_LINE_BYTES);
    let part = String::from_utf8_lossy(&line[start..end]);
    let mut part = part.as_ref();
    // Characters that were cut.
    if start > 0 {
        part = part.trim_start_matches('\u{fffd}');
    }
    if end < line.len() {
        part = part.trim_end_matches('\u{fffd}');
    }
    let (before, after) =
        (if start > 0 { "…" } else { "" }, if end < line.len() { "…" } else { "" });
    format!("{before}{part}{after}")
}

/// A reader that fails once the call is cancelled: a single file can take very long.
struct Cancellable<'a, R> {
    input: R,
    cx: &'a ToolContext,
}

impl<R: Read> Read for Cancellable<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cx.is_cancelled() {
            Err(io::ErrorKind::Other.into())
        } else {
            self.input.read(buffer)
        }
    }
}

impl Matches {
    fn add(&mut self, path: &Path, matches: io::Result<FileMatches<'_>>) {
        let Ok(matches) = matches else {
            self.unreadable_files += 1;
            return;
        };
        if matches.count == 0 {
            self.binary_files_without_match += 1;
            return;
        }
        self.total_lines += matches.count;
        self.total_files += 1;
        self.binary_files += usize::from(matches.binary);
        if self.held_lines < MAX_LINES
            || self.first.last_key_value().is_some_and(|(last, _)| path < last.as_path())
        {
            self.held_lines += matches.first.len();
            self.first.insert(path.to_owned(), matches.first);
        }
        // The last file is dropped if the files before it are enough.
        while let Some(last) =
            self.first.last_entry().filter(|last| self.held_lines - last.get().len() >= MAX_LINES)
        {
            self.held_lines -= last.remove().len();
        }
    }

    fn report(self, args: &Args, skipped: SkippedPaths) -> ToolOutput {
        let path = args.path.as_deref().unwrap_or(".");
        let mut text = String::new();
        let mut shown_lines = 0;
        let mut matches = Vec::new();
        'all: for (file, lines) in &self.first {
            let file = path_text(file);
            for Line { line, text: content } in lines {
                let length = file.len() + content.len();
                if shown_lines == MAX_LINES || text.len() + length > MAX_TEXT_BYTES {
                    break 'all;
                }
                text.push_str(&format!("{file}:{line}:{content}\n"));
                matches.push(json!({ "path": file, "line": line, "text": content }));
                shown_lines += 1;
            }
        }
        if self.total_lines == 0 {
            let include = args.include.as_deref().filter(|glob| !glob.is_empty());
            let include = include.map(|glob| format!(" in files that match `{}`", printable(glob)));
            let include = include.unwrap_or_default();
            text = format!(
                "No line in `{}` matches `{}`{include}.\n",
                printable(path),
                printable(&args.pattern)
            );
        } else if self.total_lines > shown_lines {
            text.push_str(&format!(
                "… the first {shown_lines} of {} matching lines in {} files: narrow it with \
                 `path`, `include` or a longer pattern\n",
                self.total_lines, self.total_files
            ));
        }
        // If a line has matched, the others are of no interest.
        let unmatched = if self.total_lines == 0 { self.binary_files_without_match } else { 0 };
        match self.binary_files + unmatched {
            0 => {}
            1 => text.push_str("… 1 file is binary: only the text at its start was searched\n"),
            n => text.push_str(&format!(
                "… {n} files are binary: only the text at their start was searched\n"
            )),
        }
        match self.unreadable_files {
            0 => {}
            1 => text.push_str("… 1 file could not be read, or has a line that is too long\n"),
            n => text.push_str(&format!(
                "… {n} files could not be read, or have a line that is too long\n"
            )),
        }
        text.push_str(&skipped.report(self.total_lines == 0));
        let details = json!({
            "path": path,
            "pattern": args.pattern,
            "include": args.include,
            "matches": matches,
            "total_lines": self.total_lines,
            "total_files": self.total_files,
        });
        ToolOutput::text(text).details(details)
    }
}

#[cfg(test)]
mod tests;
