//! `search_files`: the lines that match a regular expression.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkFinish, SinkMatch};
use loopwright_core::tool::Effect;
use loopwright_core::{Tool, ToolContext, ToolError, ToolOutput, tool_with};
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
    /// The regular expression, such as `fn \w+_test\(`. It is case-sensitive; `(?i)` at its start
    /// makes it not.
    pattern: String,
    /// The directory or file to search, as a path relative to the workspace; all of the workspace
    /// if left out.
    path: Option<String>,
    /// Search only files that match this glob, such as `*.rs` or `src/**/*.{ts,tsx}`. Without `/`
    /// it is matched against names in every directory, with one against paths below `path`.
    include: Option<String>,
}

/// The tool that searches the files of this workspace.
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
    let include =
        args.include.as_deref().filter(|glob| !glob.is_empty()).map(Pattern::new).transpose()?;
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
        return Err(ToolError::Failed(
            "the pattern is empty, which every line matches: say what to look for".into(),
        ));
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
    SearcherBuilder::new()
        .binary_detection(BinaryDetection::quit(0))
        .line_number(true)
        .heap_limit(Some(HELD))
        .build()
}

/// The lines of one file that match.
#[derive(Default)]
struct Hits {
    first: Vec<Line>,
    count: usize,
    binary: bool,
}

impl Hits {
    fn of(
        here: &Here<'_>,
        searcher: &mut Searcher,
        matcher: &RegexMatcher,
        cx: &ToolContext,
    ) -> io::Result<Self> {
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
            self.first.push(Line {
                line: found.line_number().unwrap_or(0),
                text: excerpt(found.bytes()),
            });
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
        if self.cx.is_cancelled() {
            Err(io::ErrorKind::Other.into())
        } else {
            self.input.read(buffer)
        }
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
        if self.held < LINES
            || self.first.last_key_value().is_some_and(|(last, _)| path < last.as_path())
        {
            self.held += hits.first.len();
            self.first.insert(path.to_owned(), hits.first);
        }
        // The last file goes if those before it are enough.
        while let Some(last) =
            self.first.last_entry().filter(|last| self.held - last.get().len() >= LINES)
        {
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
            text = format!(
                "No line in `{}` matches `{}`{include}.\n",
                shown(path),
                shown(&args.pattern)
            );
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
            n => text.push_str(&format!(
                "… {n} files are binary: only the text at their start was searched\n"
            )),
        }
        match self.unreadable {
            0 => {}
            1 => text.push_str("… 1 file could not be read, or has an endless line\n"),
            n => {
                text.push_str(&format!("… {n} files could not be read, or have an endless line\n"))
            }
        }
        text.push_str(&walked.told(self.lines == 0));
        let details = json!({
            "path": path, "pattern": args.pattern, "include": args.include, "matches": matches,
            "total_lines": self.lines, "total_files": self.files });
        ToolOutput::text(text).details(details)
    }
}

#[cfg(test)]
mod tests;
