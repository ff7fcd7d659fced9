//! Messages of a request, converted to a history and the user's last message.

use loopwright_core::log::LogEntry;
use loopwright_core::message::{AssistantMessage, Content, ContentPart, ResultStatus, UserMessage};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::DecodeError;
use crate::from_json::from_json;
use crate::history::{History, is_json_object, is_tool_name};
use crate::media::data_url;
use crate::prompt::is_blank;

/// The maximum number of messages or items of a request.
const MAX_MESSAGES: usize = 10_000;
/// The maximum number of parts or calls of one message. It bounds the search for the call of each
/// result.
const MAX_PARTS: usize = 1_000;

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Role {
    System,
    Developer,
    User,
    Assistant,
    Tool,
}

/// One part of a message, in the forms of both APIs.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part {
    #[serde(alias = "input_text", alias = "output_text")]
    Text {
        text: String,
    },
    Refusal {
        refusal: String,
    },
    ImageUrl {
        image_url: ImageUrl,
    },
    InputImage {
        image_url: Option<String>,
    },
    File {
        file: FileData,
    },
    InputFile(FileData),
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct ImageUrl {
    url: String,
}

#[derive(Deserialize)]
struct FileData {
    file_data: Option<String>,
}

impl Part {
    /// Returns the content. `path` is the position of the part.
    fn content(self, path: &str) -> Result<Content, DecodeError> {
        let (url, field) = match self {
            Part::Text { text } | Part::Refusal { refusal: text } => {
                return Ok(Content::Text { text });
            }
            Part::ImageUrl { image_url } => (Some(image_url.url), "image_url/url"),
            Part::InputImage { image_url } => (image_url, "image_url"),
            Part::File { file } => (file.file_data, "file/file_data"),
            Part::InputFile(file) => (file.file_data, "file_data"),
            Part::Other => {
                let why = "Parts of this type are not supported: send text, images and PDFs.";
                return Err(DecodeError::at(format!("{path}/type"), why));
            }
        };
        let at = |why: &str| DecodeError::at(format!("{path}/{field}"), why);
        let url =
            url.ok_or_else(|| at("This server stores no files: send it as a `data:` URL."))?;
        data_url(&url).map_err(|why| at(&why))
    }
}

/// Parses a content: text, a list of parts, or `null`. `path` is its position.
pub(super) fn contents(raw: Option<&RawValue>, path: &str) -> Result<Vec<Content>, DecodeError> {
    let Some(raw) = raw.map(RawValue::get).filter(|raw| *raw != "null") else {
        return Ok(Vec::new());
    };
    if raw.starts_with('"') {
        return Ok(vec![Content::Text { text: from_json(raw.as_bytes(), path)? }]);
    }
    let parts: Vec<Part> = from_json(raw.as_bytes(), path)?;
    if parts.len() > MAX_PARTS {
        return Err(DecodeError::at(path, format!("There are more than {MAX_PARTS} parts.")));
    }
    let parts = parts.into_iter().enumerate();
    parts.map(|(at, part)| part.content(&format!("{path}/{at}"))).collect()
}

/// Returns the texts of a content. Fails if it has anything else.
fn texts(content: Vec<Content>, path: &str) -> Result<String, DecodeError> {
    let text = |content| match content {
        Content::Text { text } => Ok(text),
        _ => Err(DecodeError::at(path, "Only messages of the user can contain files.")),
    };
    content.into_iter().map(text).collect()
}

/// The messages of a request, in conversion.
#[derive(Default)]
pub(super) struct Conversation {
    history: History,
    instructions: Vec<String>,
    calls: usize,
    /// The last message, if it is the user's.
    last: Option<Vec<Content>>,
}

impl Conversation {
    /// Creates a conversation with the instructions of the request. `count` is the number of its
    /// messages, which are in `field`.
    pub(super) fn new(
        instructions: Option<String>,
        count: usize,
        field: &str,
    ) -> Result<Self, DecodeError> {
        if count > MAX_MESSAGES {
            let why = format!("There are {count} messages; {MAX_MESSAGES} are allowed.");
            return Err(DecodeError::at(field, why));
        }
        let instructions = instructions.into_iter().collect();
        Ok(Conversation { instructions, ..Self::default() })
    }

    /// Moves the user's last message to the history, because another message follows.
    fn next(&mut self) {
        if let Some(content) = self.last.take() {
            self.history.user(content);
        }
    }

    /// Adds a message that is not a result. `path` is the position of its content.
    pub(super) fn message(
        &mut self,
        role: Role,
        content: Vec<Content>,
        path: &str,
    ) -> Result<(), DecodeError> {
        match role {
            Role::System | Role::Developer => self.instructions.push(texts(content, path)?),
            Role::User if content.is_empty() => {
                return Err(DecodeError::at(path, "The message is empty."));
            }
            Role::User => {
                self.next();
                self.calls = 0;
                self.last = Some(content);
            }
            Role::Assistant | Role::Tool => {
                self.next();
                self.calls = 0;
                let text = texts(content, path)?;
                let part = ContentPart::Text { text: text.clone(), signature: None };
                let parts = if text.is_empty() { Vec::new() } else { vec![part] };
                self.history.reply(AssistantMessage::new(parts));
            }
        }
        Ok(())
    }

    /// Adds a call to the last reply. `path` is the position of the object with its name and
    /// arguments.
    pub(super) fn call(
        &mut self,
        id: Option<&str>,
        name: &str,
        arguments: &str,
        path: &str,
    ) -> Result<(), DecodeError> {
        if !is_tool_name(name) {
            let why = "This is not a legal tool name: use up to 64 letters, digits, `_` and `-`.";
            return Err(DecodeError::at(format!("{path}/name"), why));
        }
        let arguments = if arguments.trim().is_empty() { "{}" } else { arguments };
        if !is_json_object(arguments) {
            let why = "The arguments are not the text of a JSON object.";
            return Err(DecodeError::at(format!("{path}/arguments"), why));
        }
        self.calls += 1;
        if self.calls > MAX_PARTS {
            let why = format!("One message has more than {MAX_PARTS} calls.");
            return Err(DecodeError::at(path, why));
        }
        self.next();
        self.history.call(id, name.into(), arguments.into(), None);
        Ok(())
    }

    /// Adds the result of a call. `path` is the position of the id.
    pub(super) fn result(
        &mut self,
        id: &str,
        status: ResultStatus,
        content: Vec<Content>,
        path: &str,
    ) -> Result<(), DecodeError> {
        match self.history.result(Some(id), None, status, content) {
            None => Ok(()),
            Some(_) => Err(DecodeError::at(
                path,
                "No call before this result has this id, or it has a result already.",
            )),
        }
    }

    /// Adds the result of the last call.
    pub(super) fn last_result(&mut self, status: ResultStatus, content: Vec<Content>) {
        self.history.last_result(status, content);
    }

    /// Returns the instructions, the history and the last message. `path` is the position of the
    /// messages.
    pub(super) fn finish(
        self,
        path: &str,
    ) -> Result<(Option<String>, Vec<LogEntry>, UserMessage), DecodeError> {
        let Some(content) = self.last else {
            let why = "The last message must be one of the user.";
            return Err(DecodeError::at(path, why));
        };
        if is_blank(&content) {
            return Err(DecodeError::at(path, "The last message is empty: write what to do."));
        }
        let instructions: Vec<String> =
            self.instructions.into_iter().filter(|text| !text.trim().is_empty()).collect();
        let instructions = (!instructions.is_empty()).then(|| instructions.join("\n\n"));
        Ok((instructions, self.history.finish(), UserMessage::new(content)))
    }
}
