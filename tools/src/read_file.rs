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
    WorkspaceError::io(shown(path), "read", error).into()
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

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test makes its files from outside")]
mod tests {
    use std::fs;
    use std::io::Write;

    use serde_json::Value;

    use super::*;

    async fn call(dir: &tempfile::TempDir, arguments: Value) -> Result<ToolOutput, ToolError> {
        let tool = read_file(Workspace::open(dir.path()).unwrap());
        tool.call(&arguments, ToolContext::detached()).await
    }

    /// Puts `content` into `f` and reads it with these arguments besides the path.
    async fn read(content: impl AsRef<[u8]>, mut arguments: Value) -> Result<(String, Value), String> {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("f"), content).unwrap();
        arguments["path"] = "f".into();
        let output = call(&dir, arguments).await.map_err(|e| e.to_string())?;
        let [Content::Text { text }] = &output.content[..] else { panic!("{output:?}") };
        Ok((text.clone(), output.details.unwrap()))
    }

    fn numbered(lines: u64) -> String {
        (1..=lines).map(|n| format!("line {n}\n")).collect()
    }

    #[tokio::test]
    async fn lines_are_numbered_and_kept_as_they_are() {
        let (text, details) = read("a\r\n\tb  \n\nü", json!({})).await.unwrap();
        assert_eq!(text, "     1\ta\r\n     2\t\tb  \n     3\t\n     4\tü\n");
        assert_eq!(details, json!({ "path": "f", "first_line": 1, "last_line": 4, "total_lines": 4 }));
    }

    #[tokio::test]
    async fn a_window_says_how_to_read_on() {
        let (text, details) = read(numbered(10), json!({ "offset": 3, "limit": 2 })).await.unwrap();
        assert_eq!(text, "     3\tline 3\n     4\tline 4\n… 6 more lines: read on with offset=5\n");
        assert_eq!(details, json!({ "path": "f", "first_line": 3, "last_line": 4, "total_lines": 10 }));
        let (text, _) = read(numbered(10), json!({ "offset": 9, "limit": 1 })).await.unwrap();
        assert_eq!(text, "     9\tline 9\n… 1 more line: read on with offset=10\n");
        let (text, _) = read(numbered(10), json!({ "offset": 10, "limit": u64::MAX })).await.unwrap();
        assert_eq!(text, "    10\tline 10\n");
        let (text, _) = read(numbered(2_120), json!({})).await.unwrap();
        assert!(text.ends_with("  2000\tline 2000\n… 120 more lines: read on with offset=2001\n"), "{text}");
    }

    #[tokio::test]
    async fn pieces_join_to_the_whole_when_bytes_are_the_limit() {
        let whole: String = (0..300).map(|n| format!("{}\n", "é".repeat(n))).collect();
        let (mut offset, mut joined, mut pieces) = (1, String::new(), 0);
        while offset <= 300 {
            let (text, details) = read(&whole, json!({ "offset": offset })).await.unwrap();
            assert!(text.len() < BYTES + 100);
            for line in text.lines().filter(|line| !line.starts_with('…')) {
                joined.push_str(line.split_once('\t').unwrap().1);
                joined.push('\n');
            }
            offset = details["last_line"].as_u64().unwrap() + 1;
            pieces += 1;
        }
        assert_eq!(joined, whole);
        assert_eq!(pieces, 2);
    }

    #[tokio::test]
    async fn a_line_without_end_is_cut_at_a_character() {
        let long = format!("a{}\nnext\n", "é".repeat(BYTES));
        let (text, details) = read(long, json!({})).await.unwrap();
        assert!(text.len() < BYTES + 200);
        let word = "… line 1 has 102401 bytes and is cut after 51200\n… 1 more line: read on with offset=2\n";
        assert!(text.ends_with(word), "{}", &text[text.len() - 200..]);
        assert_eq!(details["last_line"], 1);
        let (text, details) = read("x".repeat(BYTES + 1), json!({})).await.unwrap();
        assert!(text.ends_with("x\n… line 1 has 51201 bytes and is cut after 51200\n"));
        assert_eq!(details["total_lines"], 1);
    }

    #[tokio::test]
    async fn nothing_to_show_is_said() {
        let (text, details) = read("", json!({ "offset": 7 })).await.unwrap();
        assert_eq!((text.as_str(), &details["total_lines"]), ("`f` is empty.", &json!(0)));
        let why = read(numbered(3), json!({ "offset": 4 })).await.unwrap_err();
        assert_eq!(why, "`f` ends with line 3: read it with an offset from 1 to 3");
        assert_eq!(read(numbered(3), json!({ "offset": 900 })).await.unwrap_err(), why);
        assert!(read(numbered(3), json!({ "offset": 0 })).await.is_err());
    }

    #[tokio::test]
    async fn what_is_no_text_is_named() {
        let why = read(b"\x7fELF\x02\x01\0\0", json!({})).await.unwrap_err();
        assert_eq!(why, "`f` is a binary file of 8 bytes, which cannot be read as text");
        let why = read(b"fine\nna\xefve\n", json!({})).await.unwrap_err();
        assert!(why.starts_with("`f` is not UTF-8 text (line 2 "), "{why}");
        assert!(read(b"fine\nna\xefve\n", json!({ "limit": 1 })).await.is_ok());
    }

    #[tokio::test]
    async fn images_are_shown_up_to_five_megabytes() {
        let dir = tempfile::tempdir().unwrap();
        let starts: [(&[u8], &str); 4] = [
            (b"\x89PNG\r\n\x1a\n\0\0", "image/png"),
            (b"\xff\xd8\xff\xe0\0\0", "image/jpeg"),
            (b"GIF89a\0\0", "image/gif"),
            (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        ];
        for (start, wanted) in starts {
            let mut bytes = start.to_vec();
            bytes.resize(20_000, 7);
            fs::write(dir.path().join("picture"), &bytes).unwrap();
            let output = call(&dir, json!({ "path": "picture" })).await.unwrap();
            let [Content::Text { .. }, Content::Image { media_type, data }] = &output.content[..] else {
                panic!("{output:?}")
            };
            assert_eq!((media_type.as_str(), BASE64_STANDARD.decode(data).unwrap()), (wanted, bytes));
        }
        let mut large = fs::File::create(dir.path().join("large")).unwrap();
        large.write_all(starts[0].0).unwrap();
        large.set_len(IMAGE_BYTES + 1).unwrap();
        let why = call(&dir, json!({ "path": "large" })).await.unwrap_err().to_string();
        assert!(why.contains("an image of 5242881 bytes"), "{why}");
    }

    #[tokio::test]
    async fn the_end_of_a_file_of_fifty_megabytes_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let line = format!("{}\n", "x".repeat(99));
        fs::write(dir.path().join("big"), line.repeat(500_000)).unwrap();
        let output = call(&dir, json!({ "path": "big", "offset": 499_999 })).await.unwrap();
        let details = json!({ "path": "big", "first_line": 499_999, "last_line": 500_000, "total_lines": 500_000 });
        assert_eq!(output.details, Some(details));
    }

    /// A line that never ends, of which no more is held than there is room for.
    #[test]
    fn memory_does_not_grow_with_a_line() {
        let cx = ToolContext::detached();
        let mut lines = Lines { path: "f", input: BufReader::new(std::io::repeat(b'x').take(50 << 20)), cx: &cx };
        let mut line = Vec::new();
        assert_eq!(lines.next(&mut line, BYTES).unwrap(), Some(50 << 20));
        assert!(line.len() == BYTES && line.capacity() <= 4 * BYTES);
        assert_eq!(lines.next(&mut line, BYTES).unwrap(), None);
    }

    #[test]
    fn a_cancelled_call_stops_reading() {
        let cx = ToolContext::detached();
        cx.cancellation().cancel();
        let mut lines = Lines { path: "f", input: BufReader::new(std::io::repeat(b'x')), cx: &cx };
        assert_eq!(lines.next(&mut Vec::new(), 0), Err(ToolError::Cancelled));
    }

    #[test]
    fn it_runs_by_itself_and_every_argument_is_described() {
        let dir = tempfile::tempdir().unwrap();
        let tool = read_file(Workspace::open(dir.path()).unwrap());
        let spec = tool.spec();
        assert_eq!((spec.effect, spec.sequential), (Effect::ReadOnly, false));
        let properties = spec.schema["properties"].as_object().unwrap();
        assert!(properties.values().all(|p| p["description"].is_string()), "{properties:?}");
        assert_eq!(spec.schema["properties"]["offset"]["minimum"], 1);
        assert_eq!(spec.schema["required"], json!(["path"]));
    }
}
