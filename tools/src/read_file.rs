//! `read_file`: a window of numbered lines of a text file, or an image.

mod lines;

use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use loopwright_core::message::Content;
use loopwright_core::tool::Effect;
use loopwright_core::{Tool, ToolContext, ToolError, ToolOutput, tool_with};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use self::lines::{BLOCK, Last, Lines, ends_before, utf8};
use crate::error::{WorkspaceError, shown};
use crate::schema::strict;
use crate::workspace::{OpenFile, Workspace};

const NAME: &str = "read_file";
const DESCRIPTION: &str = "Reads a text file of the workspace, its lines numbered from 1: each line is its number, \
    a tab, and the text. The numbers are not part of the file. Long files come in pieces; the last line of the answer \
    says how to read on. PNG, JPEG, GIF and WebP files are returned as images.";

/// Lines that are shown unless the model asks for another number.
const LINES: i64 = 2_000;
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
    /// The number of the first line to read; 1 if left out. A negative number counts from the end:
    /// -20 reads the last 20 lines, quickly even if the file is huge.
    offset: Option<i64>,
    /// How many lines to read at most; 2000 if left out.
    limit: Option<i64>,
}

/// The tool that reads a file of this workspace.
pub fn read_file(workspace: Workspace) -> impl Tool {
    tool_with(
        workspace,
        NAME,
        DESCRIPTION,
        async |workspace: Workspace, args: Args, cx: ToolContext| {
            workspace.off_thread(move |workspace| read(workspace, &args, cx)).await
        },
    )
    .effect(Effect::ReadOnly)
    .spec(|spec| strict(spec).title("Read a file"))
}

fn read(workspace: &Workspace, args: &Args, cx: ToolContext) -> Result<ToolOutput, ToolError> {
    let path = shown(&args.path);
    if args.offset == Some(0) {
        let why = format!(
            "offset 0 is no line of `{path}`: lines are numbered from 1, and from -1 backwards"
        );
        return Err(ToolError::Failed(why));
    }
    if args.limit.is_some_and(|limit| limit < 1) {
        return Err(ToolError::Failed(format!(
            "a limit below 1 shows nothing of `{path}`: leave it out or raise it"
        )));
    }
    let mut open = workspace.open_file(&args.path)?;
    let stamp = open.stamp;
    let mut head = Vec::new();
    Read::by_ref(&mut open.file)
        .take(HEAD)
        .read_to_end(&mut head)
        .map_err(|e| unreadable(&args.path, &e))?;
    let output = if let Some(media_type) = image_type(&head) {
        image(&args.path, media_type, head, open)?
    } else if head.is_empty() {
        ToolOutput::text(format!("`{path}` is empty."))
            .details(json!({ "path": args.path, "total_lines": 0 }))
    } else if memchr::memchr(0, &head).is_some() {
        let why = format!(
            "`{path}` is a binary file of {} bytes, which cannot be read as text",
            open.size
        );
        return Err(ToolError::Failed(why));
    } else {
        text(args, open, &cx)?
    };
    workspace.note_read(&args.path, stamp);
    Ok(output)
}

/// What is asked for of a text file: from its start or, near its end, from there.
fn text(args: &Args, mut open: OpenFile, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
    let path = &args.path;
    let (mut place, mut line, mut total) = (0, 1, None);
    if let Some(back) = args.offset.filter(|offset| *offset < 0).map(i64::unsigned_abs) {
        let last = Last::find(path, &mut open.file, open.size, back, cx)?;
        place = last.place;
        line = match last.lines < back || place == 0 {
            true => 1,
            false if open.size <= COUNTED_BYTES => {
                1 + ends_before(path, &mut open.file, place, cx)? as i64
            }
            false => -(back as i64),
        };
        total = (line > 0).then_some(line - 1 + last.lines as i64);
    }
    open.file.seek(SeekFrom::Start(place)).map_err(|e| unreadable(path, &e))?;
    // What is written to its end meanwhile is left for the next time.
    let input = BufReader::with_capacity(BLOCK, open.file.take(open.size - place));
    let first = args.offset.filter(|offset| *offset > 0).unwrap_or(line);
    window(args, Lines { path, input, cx }, Begin { line, first, total }, open.size)
}

/// Where a window begins.
struct Begin {
    /// The number of the line that comes next; negative if it is only known from the end.
    line: i64,
    /// The number of the first line that is to be shown.
    first: i64,
    /// How many lines there are, if that is known.
    total: Option<i64>,
}

/// The lines from `first` on, as many as `limit` and [`BYTES`] allow, and how to read on.
fn window(
    args: &Args,
    mut lines: Lines<'_, impl BufRead>,
    begin: Begin,
    size: u64,
) -> Result<ToolOutput, ToolError> {
    let first = begin.first;
    let end = first.saturating_add(args.limit.unwrap_or(LINES));
    let (mut line, mut text, mut at) = (Vec::new(), String::new(), begin.line);
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
    let mut total = begin.total;
    if unshown == 0 && at > 0 {
        total = Some(at - 1);
    } else if unshown > 0 && total.is_none() && first > 0 && size <= COUNTED_BYTES {
        while lines.next(&mut line, 0)?.is_some() {
            unshown += 1;
        }
        total = Some(at - 1 + unshown);
    }
    if let Some(length) = cut {
        text.push_str(&format!("… line {first} has {length} bytes and is cut after {BYTES}\n"));
    }
    let more = if first < 0 { Some(-at) } else { total.map(|total| total - at + 1) };
    match (unshown, more) {
        (0, _) => {}
        (_, Some(1)) => text.push_str(&format!("… 1 more line: read on with offset={at}\n")),
        (_, Some(more)) => {
            text.push_str(&format!("… {more} more lines: read on with offset={at}\n"))
        }
        (_, None) => text.push_str(&format!("… more lines follow: read on with offset={at}\n")),
    }
    if first < 0 {
        text.push_str("… the file is too large to count its lines: they are numbered from its end, -1 is the last\n");
    }
    let mut details = json!({ "path": args.path, "first_line": first, "last_line": at - 1 });
    if let Some(total) = total {
        details["total_lines"] = total.into();
    }
    Ok(ToolOutput::text(text).details(details))
}

fn image(
    path: &str,
    media_type: &str,
    head: Vec<u8>,
    open: OpenFile,
) -> Result<ToolOutput, ToolError> {
    let mut bytes = head;
    if open.size <= IMAGE_BYTES {
        open.file.take(IMAGE_BYTES).read_to_end(&mut bytes).map_err(|e| unreadable(path, &e))?;
    }
    let size = open.size.max(bytes.len() as u64);
    if size > IMAGE_BYTES {
        let why = format!(
            "`{}` is an image of {size} bytes; the largest that can be shown has {IMAGE_BYTES}",
            shown(path)
        );
        return Err(ToolError::Failed(why));
    }
    let mut out =
        ToolOutput::text(format!("`{}` is an image, {media_type}, {size} bytes:", shown(path)));
    out.content.push(Content::Image {
        media_type: media_type.to_owned(),
        data: BASE64_STANDARD.encode(&bytes),
    });
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
    WorkspaceError::io(shown(path), "read", error).into()
}

fn past_the_end(args: &Args, total: i64) -> ToolError {
    ToolError::Failed(format!(
        "`{}` ends with line {total}: read it with an offset from 1 to {total}",
        shown(&args.path)
    ))
}

fn not_utf8(args: &Args, line: i64) -> ToolError {
    ToolError::Failed(format!(
        "`{}` is not UTF-8 text (line {line} is the first of those asked for that is not): it is binary, or in \
         another encoding",
        shown(&args.path)
    ))
}

#[cfg(test)]
mod tests;
