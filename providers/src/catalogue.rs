//! Facts about models: a built-in list, and files that add to it. Below it are the providers, and
//! the selection of a model.

pub(crate) mod detect;
pub(crate) mod provider;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use loopwright_core::model::{LongPrices, ModelError, ModelErrorKind, Prices};
use serde::{Deserialize, Serialize};

/// The wire formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Wire {
    /// [OpenAI Chat Completions](crate::openai_chat), which most other servers speak too:
    /// `openai-chat`.
    #[serde(rename = "openai-chat")]
    OpenAiChat,
    /// [OpenAI Responses](crate::openai_responses): `openai-responses`.
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
    /// [Anthropic Messages](crate::anthropic): `anthropic`.
    Anthropic,
    /// [Gemini](crate::gemini): `gemini`.
    Gemini,
}

impl Wire {
    /// All formats.
    pub const ALL: [Wire; 4] =
        [Wire::OpenAiChat, Wire::OpenAiResponses, Wire::Anthropic, Wire::Gemini];

    /// Returns the format's name, as a catalogue spells it.
    pub fn name(self) -> &'static str {
        match self {
            Wire::OpenAiChat => "openai-chat",
            Wire::OpenAiResponses => "openai-responses",
            Wire::Anthropic => "anthropic",
            Wire::Gemini => "gemini",
        }
    }
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The facts about one model. Unknown facts are `None`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct ModelFacts {
    /// Wire format, if it differs from the provider's usual format.
    pub wire: Option<Wire>,
    /// Number of tokens that fit into a request and its reply together.
    pub context_window: Option<u64>,
    /// Number of tokens that fit into a reply.
    pub max_output: Option<u64>,
    /// Prices in US dollars per million tokens.
    pub prices: Option<Prices>,
    /// `true` if the model can think before it answers.
    pub thinking: Option<bool>,
    /// `true` if the model accepts images.
    pub images: Option<bool>,
}

impl ModelFacts {
    /// Returns these facts, with `None` filled in from `others`.
    pub(crate) fn over(self, others: ModelFacts) -> ModelFacts {
        ModelFacts {
            wire: self.wire.or(others.wire),
            context_window: self.context_window.or(others.context_window),
            max_output: self.max_output.or(others.max_output),
            prices: self.prices.or(others.prices),
            thinking: self.thinking.or(others.thinking),
            images: self.images.or(others.images),
        }
    }
}

/// Facts about models, by model id.
///
/// A list to [add](Catalogue::add) is TOML: one table per model, named by its id. Every field is
/// optional. Prices are US dollars per million tokens. Cache prices default to the input price, and
/// `cache_write_1h`, for input that the cache keeps for an hour, to twice the input price.
///
/// ```toml
/// ["acme/big"]
/// wire = "openai-chat"    # or openai-responses, anthropic, gemini
/// context_window = 400_000
/// max_output = 65_536
/// prices = { input = 0.5, output = 2.0, cache_read = 0.05, cache_write = 0.6 }
/// long_prices = { over = 200_000, input = 1.0, output = 4.0 } # with more input
/// thinking = true
/// images = false
/// ```
///
/// ```
/// use loopwright_providers::Catalogue;
///
/// let mut catalogue = Catalogue::built_in();
/// let list = "[\"acme/big\"]\ncontext_window = 32_768\nprices = { input = 0.5, output = 2.0 }";
/// catalogue.add(list, "acme.toml")?;
/// assert_eq!(catalogue.get("acme/big").and_then(|facts| facts.context_window), Some(32_768));
/// # Ok::<(), loopwright_core::model::ModelError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Catalogue {
    models: BTreeMap<String, ModelFacts>,
}

/// The built-in list, which explains itself.
const BUILT_IN: &str = include_str!("models.toml");

impl Catalogue {
    /// Returns the built-in list. Parses it on each call, which takes less than a millisecond.
    pub fn built_in() -> Self {
        // A test checks that the list parses.
        Catalogue { models: parse(BUILT_IN, "the built-in list").unwrap_or_default() }
    }

    /// Returns an empty catalogue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the entries of a TOML list; `name` names the list in errors. If an id is already in the
    /// catalogue, the new entry's fields replace the old ones, field by field.
    ///
    /// # Errors
    /// Returns [`ModelErrorKind::InvalidRequest`], with the invalid entry and field in the message.
    /// The catalogue is then unchanged.
    pub fn add(&mut self, list: &str, name: &str) -> Result<(), ModelError> {
        for (id, facts) in parse(list, name)? {
            let known = self.models.entry(id).or_default();
            *known = facts.over(*known);
        }
        Ok(())
    }

    /// Adds the entries of a file, like [`add`](Catalogue::add).
    ///
    /// # Errors
    /// Returns [`ModelErrorKind::InvalidRequest`] if the file cannot be read, or the errors of
    /// [`add`](Catalogue::add). The catalogue is then unchanged.
    pub fn add_file(&mut self, path: impl AsRef<Path>) -> Result<(), ModelError> {
        let path = path.as_ref();
        let list = std::fs::read_to_string(path).map_err(|why| {
            let (path, why) = (path.display(), cause(&why));
            wrong(format!(
                "The model list {path} cannot be read: {why}. Check that it is there, \
                           and that it is text."
            ))
        })?;
        self.add(&list, &path.display().to_string())
    }

    /// Returns the facts of the model `id`, written `provider/name`. If a name that ends with a
    /// date, such as `-2025-04-14` or `-20251001`, has no entry, the entry without the date
    /// applies.
    pub fn get(&self, id: &str) -> Option<&ModelFacts> {
        self.models.get(id).or_else(|| self.models.get(undated(id)?))
    }

    /// Returns the models whose id contains `filter`, ignoring case, in alphabetical order. An
    /// empty filter matches all models.
    pub fn search(&self, filter: &str) -> impl Iterator<Item = (&str, &ModelFacts)> {
        let filter = filter.to_lowercase();
        let models = self.models.iter().map(|(id, facts)| (id.as_str(), facts));
        models.filter(move |(id, _)| id.to_lowercase().contains(&filter))
    }
}

/// Returns `id` without the date at its end, or `None` if it has no date.
fn undated(id: &str) -> Option<&str> {
    let digits =
        |text: &str, count| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    let (rest, last) = id.rsplit_once('-')?;
    if digits(last, 8) {
        return Some(rest);
    }
    let (rest, month) = rest.rsplit_once('-')?;
    let (rest, year) = rest.rsplit_once('-')?;
    (digits(year, 4) && digits(month, 2) && digits(last, 2)).then_some(rest)
}

fn parse(list: &str, name: &str) -> Result<BTreeMap<String, ModelFacts>, ModelError> {
    let table: toml::Table = toml::from_str(list).map_err(|why| {
        let line = why
            .span()
            .map_or(1, |span| 1 + list[..span.start.min(list.len())].matches('\n').count());
        let why = why.message().replace('\n', ", ");
        wrong(format!(
            "The model list {name} cannot be read at line {line}: {why}. An entry begins with \
             its model's id, in \
             brackets and quotes, such as [\"openai/gpt-4o\"]."
        ))
    })?;
    let entry = |(id, value): (String, toml::Value)| match id.split_once('/') {
        Some((provider, model)) if !provider.is_empty() && !model.is_empty() => match read(value) {
            Ok(facts) => Ok((id, facts)),
            Err(why) => {
                Err(wrong(format!("The model list {name} is wrong at the entry `{id}`: {why}.")))
            }
        },
        _ => Err(wrong(format!(
            "The model list {name} is wrong at the entry `{id}`: that is no model's id. Write \
             PROVIDER/NAME, in quotes, \
             such as [\"openai/gpt-4o\"]."
        ))),
    };
    table.into_iter().map(entry).collect()
}

/// An entry, as written in TOML.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table of fields")]
struct Entry {
    wire: Option<Wire>,
    context_window: Option<u64>,
    max_output: Option<u64>,
    prices: Option<PriceEntry>,
    long_prices: Option<LongEntry>,
    thinking: Option<bool>,
    images: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as { input = 1.0, output = 2.0 }")]
struct PriceEntry {
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
    cache_write_1h: Option<f64>,
}

#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table such as { over = 200_000, input = 2.0, output = 4.0 }"
)]
struct LongEntry {
    over: u64,
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
    cache_write_1h: Option<f64>,
}

/// Converts an entry. An error says how to correct it.
fn read(value: toml::Value) -> Result<ModelFacts, String> {
    let entry = Entry::deserialize(value).map_err(|why| {
        let why = why.to_string().replace(" u64", " a whole number").replace(" f64", " a number");
        format!(
            "{}. Correct it, or leave it out",
            why.trim().replace("\nin ", ", in ").replace('\n', ", ")
        )
    })?;
    for (field, tokens) in
        [("context_window", entry.context_window), ("max_output", entry.max_output)]
    {
        if tokens == Some(0) {
            return Err(format!("`{field}` is 0. Leave it out if it is not known"));
        }
    }
    let prices = entry.prices.map(|prices| {
        Prices::new(prices.input, prices.output)
            .cache(
                prices.cache_read.unwrap_or(prices.input),
                prices.cache_write.unwrap_or(prices.input),
            )
            .cache_write_1h(prices.cache_write_1h)
            .long(entry.long_prices.as_ref().map(|prices| {
                LongPrices::new(prices.over, prices.input, prices.output)
                    .cache(
                        prices.cache_read.unwrap_or(prices.input),
                        prices.cache_write.unwrap_or(prices.input),
                    )
                    .cache_write_1h(prices.cache_write_1h)
            }))
    });
    match &prices {
        None if entry.long_prices.is_some() => {
            return Err("`long_prices` needs `prices` beside it. Add them".into());
        }
        Some(prices) if !all(prices).into_iter().all(|price| price.is_finite() && price >= 0.0) => {
            return Err(
                "a price is below zero or no number. Give US dollars per million tokens".into()
            );
        }
        _ => {}
    }
    Ok(ModelFacts {
        wire: entry.wire,
        context_window: entry.context_window,
        max_output: entry.max_output,
        prices,
        thinking: entry.thinking,
        images: entry.images,
    })
}

fn all(prices: &Prices) -> [f64; 10] {
    let long = prices.long.unwrap_or_default();
    [
        prices.input,
        prices.output,
        prices.cache_read,
        prices.cache_write,
        long.input,
        long.output,
        long.cache_read,
        long.cache_write,
        prices.cache_write_1h.unwrap_or_default(),
        long.cache_write_1h.unwrap_or_default(),
    ]
}

fn cause(why: &std::io::Error) -> String {
    match why.kind() {
        std::io::ErrorKind::NotFound => "there is no such file".into(),
        _ => why.to_string(),
    }
}

fn wrong(why: String) -> ModelError {
    ModelError::new(ModelErrorKind::InvalidRequest, why)
}

#[cfg(test)]
mod tests;
