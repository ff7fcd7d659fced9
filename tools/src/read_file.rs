//! `read_file`: a window of numbered lines of a text file, or an image.

use std::io::{BufRead, BufReader, Cursor, Read};
use std::num::NonZeroU64;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use loopwright::{Content, Effect, Tool, ToolContext, ToolError, ToolOutput, tool_with};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::error::{WorkspaceError, shown};
use crate::workspace::{OpenFile, Workspace};

const NAME: &str = "read_file";
const DESCRIPTION: &str = "Reads a text file of the workspace, its lines numbered from 1: each line is its number, \
    a tab, and the text. The numbers are not part of the file. Long files come in pieces; the last line of the answer \
    says how to read on. PNG, JPEG, GIF and WebP files are returned as images.";

/// Lines that are shown unless the model asks for another number.
const LINES: u64 = 2_000;
/// Bytes of text that are shown at once; a line longer than this is cut.
const BYTES: usize = 50 * 1024;
/// Bytes at the start by which a file is told to be text, binary, or an image.
const HEAD: u64 = 8 * 1024;
/// The largest image that is shown.
const IMAGE_BYTES: u64 = 5 * 1024 * 1024;
/// The largest file whose lines are counted to the end.
const COUNTED_BYTES: u64 = 256 * 1024 * 1024;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// The file, as a path relative to the workspace, such as `src/main.rs`.
    path: String,
    /// The number of the first line to read; 1 if left out.
    #[serde(default)]
    offset: Option<NonZeroU64>,
    /// How many lines to read at most; 2000 if left out.
    #[serde(default)]
    limit: Option<NonZeroU64>,
}

/// The tool that reads a file of this workspace.
pub fn read_file(workspace: Workspace) -> impl Tool {
    tool_with(workspace, NAME, DESCRIPTION, async |workspace: Workspace, args: Args, cx: ToolContext| {
        workspace.off_thread(move |workspace| read(workspace, &args, cx)).await
    })
    .effect(Effect::ReadOnly)
    .spec(|spec| spec.title("Read a file"))
}

fn read(workspace: &Workspace, args: &Args, cx: ToolContext) -> Result<ToolOutput, ToolError> {
    let mut open = workspace.open_file(&args.path)?;
    let mut head = Vec::new();
    Read::by_ref(&mut open.file).take(HEAD).read_to_end(&mut head).map_err(|e| unreadable(&args.path, &e))?;
    if let Some(media_type) = image_type(&head) {
        return image(&args.path, media_type, head, open);
    }
    if head.is_empty() {
        let details = json!({ "path": args.path, "total_lines": 0 });
        return Ok(ToolOutput::text(format!("`{}` is empty.", shown(&args.path))).details(details));
    }
    if memchr::memchr(0, &head).is_some() {
        let why =
            format!("`{}` is a binary file of {} bytes, which cannot be read as text", shown(&args.path), open.size);
        return Err(ToolError::Failed(why));
    }
    let lines = Lines {
        path: &args.path,
        input: BufReader::with_capacity(64 * 1024, Cursor::new(head).chain(open.file)),
        cx: &cx,
    };
    window(args, lines, open.size)
}

/// The lines from `offset` on, as many as `limit` and [`BYTES`] allow, and how to read on.
fn window(args: &Args, mut lines: Lines<'_, impl BufRead>, size: u64) -> Result<ToolOutput, ToolError> {
    let first = args.offset.map_or(1, NonZeroU64::get);
    let end = first.saturating_add(args.limit.map_or(LINES, NonZeroU64::get));
    let (mut line, mut text, mut at) = (Vec::new(), String::new(), 1);
    while at < first {
        if lines.next(&mut line, 0)?.is_none() {
            return Err(past_the_end(args, at - 1));
        }
        at += 1;
    }
    // One line is read to learn whether there is more; if it is not shown, `unshown` counts it.
    let (mut unshown, mut cut) = (0, None);
    while let Some(length) = lines.next(&mut line, BYTES)? {
        let fits = text.len() + length <= BYTES;
        if at == end || cut.is_some() || (!fits && at > first) {
            unshown = 1;
            break;
        }
        if !fits {
            cut = Some(length);
        }
        let shown_line = utf8(&line, cut.is_some()).ok_or_else(|| not_utf8(args, at))?;
        text.push_str(&format!("{at:>6}\t{shown_line}\n"));
        at += 1;
    }
    if at == first && unshown == 0 {
        return Err(past_the_end(args, at - 1));
    }
    let mut total = (unshown == 0).then_some(at - 1);
    if unshown > 0 && size <= COUNTED_BYTES {
        while lines.next(&mut line, 0)?.is_some() {
            unshown += 1;
        }
        total = Some(at - 1 + unshown);
    }
    if let Some(length) = cut {
        text.push_str(&format!("… line {first} has {length} bytes and is cut after {BYTES}\n"));
    }
    match (unshown, total) {
        (0, _) => {}
        (1, Some(_)) => text.push_str(&format!("… 1 more line: read on with offset={at}\n")),
        (more, Some(_)) => text.push_str(&format!("… {more} more lines: read on with offset={at}\n")),
        (_, None) => text.push_str(&format!("… more lines follow: read on with offset={at}\n")),
    }
    let mut details = json!({ "path": args.path, "first_line": first, "last_line": at - 1 });
    if let Some(total) = total {
        details["total_lines"] = total.into();
    }
    Ok(ToolOutput::text(text).details(details))
}

/// Lines one by one, none of them held in full unless there is room.
struct Lines<'a, R> {
    path: &'a str,
    input: R,
    cx: &'a ToolContext,
}

impl<R: BufRead> Lines<'_, R> {
    /// Puts the first `room` bytes of the next line into `line`, without its end; gives its whole length.
    fn next(&mut self, line: &mut Vec<u8>, room: usize) -> Result<Option<usize>, ToolError> {
        line.clear();
        let (mut length, mut any) = (0, false);
        loop {
            if self.cx.is_cancelled() {
                return Err(ToolError::Cancelled);
            }
            let chunk = self.input.fill_buf().map_err(|e| unreadable(self.path, &e))?;
            if chunk.is_empty() {
                return Ok(any.then_some(length));
            }
            any = true;
            let end = memchr::memchr(b'\n', chunk);
            let part = &chunk[..end.unwrap_or(chunk.len())];
            line.extend_from_slice(&part[..part.len().min(room - line.len())]);
            length += part.len();
            let used = part.len() + usize::from(end.is_some());
            self.input.consume(used);
            if end.is_some() {
                return Ok(Some(length));
            }
        }
    }
}

/// The line as text; of one that is `cut`, without the piece of a character at its end.
fn utf8(line: &[u8], cut: bool) -> Option<&str> {
    match std::str::from_utf8(line) {
        Ok(text) => Some(text),
        Err(e) if cut && e.error_len().is_none() => std::str::from_utf8(&line[..e.valid_up_to()]).ok(),
        Err(_) => None,
    }
}

fn image(path: &str, media_type: &str, head: Vec<u8>, open: OpenFile) -> Result<ToolOutput, ToolError> {
    let mut bytes = head;
    if open.size <= IMAGE_BYTES {
        open.file.take(IMAGE_BYTES).read_to_end(&mut bytes).map_err(|e| unreadable(path, &e))?;
    }
    let size = open.size.max(bytes.len() as u64);
    if size > IMAGE_BYTES {
        let why =
            format!("`{}` is an image of {size} bytes; the largest that can be shown has {IMAGE_BYTES}", shown(path));
        return Err(ToolError::Failed(why));
    }
    let mut out = ToolOutput::text(format!("`{}` is an image, {media_type}, {size} bytes:", shown(path)));
    out.content.push(Content::Image { media_type: media_type.to_owned(), data: BASE64_STANDARD.encode(&bytes) });
    Ok(out.details(json!({ "path": path, "media_type": media_type, "bytes": size })))
}

fn image_type(head: &[u8]) -> Option<&'static str> {
    match head {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

fn unreadable(path: &str, error: &std::io::Error) -> ToolError {
    WorkspaceError::Io { path: shown(path), what: "read", why: error.to_string() }.into()
}

fn past_the_end(args: &Args, total: u64) -> ToolError {
    ToolError::Failed(format!(
        "`{}` ends with line {total}: read it with an offset from 1 to {total}",
        shown(&args.path)
    ))
}

fn not_utf8(args: &Args, line: u64) -> ToolError {
    ToolError::Failed(format!(
        "`{}` is not UTF-8 text (line {line} is the first of those asked for that is not): it is binary, or in \
         another encoding",
        shown(&args.path)
    ))
}
