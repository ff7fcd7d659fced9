//! `read_file`: reads a range of numbered lines of a text file, or an image.

mod lines;

use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use loopwright_core::media::{self, MediaError};
use loopwright_core::message::Content;
use loopwright_core::tool::Effect;
use loopwright_core::{Tool, ToolContext, ToolError, ToolOutput, tool_with};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use self::lines::{BLOCK_BYTES, LineReader, TailStart, count_line_ends, read_error, utf8};
use crate::error::printable;
use crate::schema::strict;
use crate::text::BYTE_ORDER_MARK;
use crate::workspace::{OpenFile, Workspace};

const NAME: &str = "read_file";
const DESCRIPTION: &str = "Reads a text file of the workspace. Each line is shown as its number \
    (from 1), a tab, and its text; the numbers are not part of the file. Long files are returned \
    in parts; the last line of the result says how to continue. PNG, JPEG, GIF and WebP files are \
    returned as images.";

/// The default number of lines of a call.
const DEFAULT_LINES: i64 = 2_000;
/// The maximum size of text in a result. A longer line is cut.
const MAX_TEXT_BYTES: usize = 50 * 1024;
/// The size of a file's start that decides whether it is text, binary, or an image.
const SNIFFED_BYTES: u64 = 8 * 1024;
/// The maximum size of an image.
const MAX_IMAGE_BYTES: u64 = media::MAX_IMAGE_BYTES as u64;
/// The maximum size of a file whose lines are counted.
const MAX_COUNTED_BYTES: u64 = 256 * 1024 * 1024;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// The file, as a path relative to the workspace, such as `src/main.rs`.
    path: String,
    /// The number of the first line to read; defaults to 1. A negative number counts from the end:
    /// -20 reads the last 20 lines, which is fast even for a huge file.
    offset: Option<i64>,
    /// The maximum number of lines to read; defaults to 2000.
    limit: Option<i64>,
}

/// Creates the tool `read_file`, which reads a file of the workspace.
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
    let path = printable(&args.path);
    if args.offset == Some(0) {
        let why = format!(
            "offset 0 is not a line of `{path}`: lines are numbered from 1, and from -1 backwards"
        );
        return Err(ToolError::Failed(why));
    }
    if args.limit.is_some_and(|limit| limit < 1) {
        return Err(ToolError::Failed(format!(
            "a limit below 1 shows no line of `{path}`: omit it or raise it"
        )));
    }
    let mut open = workspace.open_file(&args.path)?;
    let stamp = open.stamp;
    let mut head = Vec::new();
    Read::by_ref(&mut open.file)
        .take(SNIFFED_BYTES)
        .read_to_end(&mut head)
        .map_err(|e| read_error(&args.path, &e))?;
    let output = if let Some(media_type) =
        media::media_type_of(&head).filter(|kind| kind.starts_with("image/"))
    {
        image(&args.path, media_type, head, open)?
    } else if head.is_empty() {
        ToolOutput::text(format!("`{path}` is empty."))
            .details(json!({ "path": args.path, "total_lines": 0 }))
    } else if head.contains(&0) {
        let why = format!(
            "`{path}` is a binary file of {} bytes, which cannot be shown as text",
            open.size
        );
        return Err(ToolError::Failed(why));
    } else {
        text(args, open, &cx)?
    };
    workspace.note_read(&args.path, stamp);
    Ok(output)
}

/// Reads the requested lines of a text file, from its start, or from its end for a negative offset.
fn text(args: &Args, mut open: OpenFile, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
    let path = &args.path;
    let mut position = 0;
    let mut line = 1;
    let mut total = None;
    if let Some(from_end) = args.offset.filter(|offset| *offset < 0).map(i64::unsigned_abs) {
        let tail = TailStart::find(path, &mut open.file, open.size, from_end, cx)?;
        position = tail.position;
        line = match tail.lines < from_end || position == 0 {
            true => 1,
            false if open.size <= MAX_COUNTED_BYTES => {
                1 + count_line_ends(path, &mut open.file, position, cx)? as i64
            }
            false => -(from_end as i64),
        };
        total = (line > 0).then_some(line - 1 + tail.lines as i64);
    }
    open.file.seek(SeekFrom::Start(position)).map_err(|e| read_error(path, &e))?;
    // Text that is appended meanwhile is not read.
    let input = BufReader::with_capacity(BLOCK_BYTES, open.file.take(open.size - position));
    let first = args.offset.filter(|offset| *offset > 0).unwrap_or(line);
    let range = LineRange { line, first, total };
    read_range(args, LineReader { path, input, cx }, range, open.size)
}

/// The start of a range of lines.
struct LineRange {
    /// The number of the next line from the reader. Negative if it is only known from the end.
    line: i64,
    /// The number of the first line to show.
    first: i64,
    /// The number of lines in the file; `None` if unknown.
    total: Option<i64>,
}

/// Reads the lines from `range.first` on, up to the limit and [`MAX_TEXT_BYTES`], and adds a note
/// on how to continue.
fn read_range(
    args: &Args,
    mut lines: LineReader<'_, impl BufRead>,
    range: LineRange,
    size: u64,
) -> Result<ToolOutput, ToolError> {
    let first = range.first;
    let end = first.saturating_add(args.limit.unwrap_or(DEFAULT_LINES));
    let mut line = Vec::new();
    let mut text = String::new();
    let mut at = range.line;
    while at < first {
        if lines.next(&mut line, 0)?.is_none() {
            return Err(past_the_end(args, at - 1));
        }
        at += 1;
    }
    // One more line is read to find out whether any follows. `remaining` counts it.
    let mut remaining = 0;
    let mut cut = None;
    while let Some(length) = lines.next(&mut line, MAX_TEXT_BYTES)? {
        let fits = text.len() + length <= MAX_TEXT_BYTES;
        if at == end || cut.is_some() || (!fits && at > first) {
            remaining = 1;
            break;
        }
        if !fits {
            cut = Some(length);
        }
        let line_text = utf8(&line, cut.is_some()).ok_or_else(|| not_utf8(args, at))?;
        let line_text = match at {
            1 => line_text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line_text),
            _ => line_text,
        };
        text.push_str(&format!("{at:>6}\t{line_text}\n"));
        at += 1;
    }
    if at == first && remaining == 0 {
        return Err(past_the_end(args, at - 1));
    }
    let mut total = range.total;
    if remaining == 0 && at > 0 {
        total = Some(at - 1);
    } else if remaining > 0 && total.is_none() && first > 0 && size <= MAX_COUNTED_BYTES {
        while lines.next(&mut line, 0)?.is_some() {
            remaining += 1;
        }
        total = Some(at - 1 + remaining);
    }
    if let Some(length) = cut {
        text.push_str(&format!(
            "… line {first} has {length} bytes and is cut after {MAX_TEXT_BYTES}\n"
        ));
    }
    let more = if first < 0 { Some(-at) } else { total.map(|total| total - at + 1) };
    match (remaining, more) {
        (0, _) => {}
        (_, Some(1)) => text.push_str(&format!("… 1 more line: continue with offset={at}\n")),
        (_, Some(more)) => {
            text.push_str(&format!("… {more} more lines: continue with offset={at}\n"))
        }
        (_, None) => text.push_str(&format!("… more lines follow: continue with offset={at}\n")),
    }
    if first < 0 {
        text.push_str(
            "… the file is too large to count its lines: they are numbered from its end, -1 is the \
             last\n",
        );
    }
    let mut details = json!({ "path": args.path, "first_line": first, "last_line": at - 1 });
    if let Some(total) = total {
        details["total_lines"] = total.into();
    }
    Ok(ToolOutput::text(text).details(details))
}

/// Returns an image file for the model. `head` are its first bytes.
fn image(
    path: &str,
    media_type: &str,
    head: Vec<u8>,
    open: OpenFile,
) -> Result<ToolOutput, ToolError> {
    let mut bytes = head;
    if open.size <= MAX_IMAGE_BYTES {
        open.file
            .take(MAX_IMAGE_BYTES)
            .read_to_end(&mut bytes)
            .map_err(|e| read_error(path, &e))?;
    }
    let size = open.size.max(bytes.len() as u64);
    let checked = match size > MAX_IMAGE_BYTES {
        true => Err(MediaError::TooLarge { max: media::MAX_IMAGE_BYTES }),
        false => media::check(&bytes),
    };
    if let Err(why) = checked {
        let path = printable(path);
        let why = format!("`{path}` is an image of {size} bytes that cannot be shown: {why}");
        return Err(ToolError::Failed(why));
    }
    let mut out =
        ToolOutput::text(format!("`{}` is an image, {media_type}, {size} bytes:", printable(path)));
    out.content.push(Content::Image {
        media_type: media_type.to_owned(),
        data: BASE64_STANDARD.encode(&bytes),
    });
    Ok(out.details(json!({ "path": path, "media_type": media_type, "bytes": size })))
}

fn past_the_end(args: &Args, total: i64) -> ToolError {
    ToolError::Failed(format!(
        "`{}` ends with line {total}: read it with an offset from 1 to {total}",
        printable(&args.path)
    ))
}

fn not_utf8(args: &Args, line: i64) -> ToolError {
    ToolError::Failed(format!(
        "`{}` is not UTF-8 text (line {line} is the first requested line that is not): it is \
         binary, or in another encoding",
        printable(&args.path)
    ))
}

#[cfg(test)]
mod tests;
