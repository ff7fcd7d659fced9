//! `loopwright models`: what is known of models, and where the user's own list is.

use std::io::{self, Write};
use std::path::PathBuf;

use loopwright_providers::{Catalogue, ModelFacts, Provider};
use serde_json::{Value, json};

use crate::agent::StartError;
use crate::args::ModelsArgs;
use crate::{config, print};

/// No model fits the filter.
const NONE: u8 = 1;

const HEAD: [&str; 8] = ["MODEL", "WIRE", "CONTEXT", "OUTPUT", "$ IN", "$ OUT", "THINKS", "IMAGES"];

/// The built-in catalogue with the user's own list: the one that was asked for, else the one in the
/// configuration directory. A list that was asked for must be sound; one that merely lies there is
/// complained of.
pub(crate) fn catalogue(asked: Option<&PathBuf>) -> Result<Catalogue, StartError> {
    let mut catalogue = Catalogue::built_in();
    if let Some(file) = asked {
        catalogue.add_file(file)?;
    } else if let Some(Err(why)) = usual_list().map(|file| catalogue.add_file(file)) {
        print::complain(&format!("{} Until then it counts for nothing.", why.message));
    }
    Ok(catalogue)
}

/// The list in the configuration directory, if there is one.
pub(crate) fn usual_list() -> Option<PathBuf> {
    config::directory().map(|directory| directory.join("models.toml")).filter(|file| file.exists())
}

/// Lists the models that fit, and gives the exit code.
pub(crate) fn models(args: &ModelsArgs) -> Result<u8, StartError> {
    let catalogue = catalogue(args.models.as_ref())?;
    let found: Vec<_> = catalogue.search(&args.filter).collect();
    if found.is_empty() {
        print::complain(&format!(
            "no model that is known has `{}` in its name. `loopwright models` lists all of them; others can be used too, \
             and described in a file (see --models).",
            args.filter
        ));
        return Ok(NONE);
    }
    let text = if args.json { lines(&found) } else { table(&found) };
    let mut out = io::stdout().lock();
    print::printed(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// One object per line; what is not known is null.
fn lines(found: &[(&str, &ModelFacts)]) -> String {
    found.iter().map(|(id, facts)| format!("{}\n", object(id, facts))).collect()
}

fn object(id: &str, facts: &ModelFacts) -> Value {
    json!({
        "id": id,
        "provider": provider(id),
        "wire": wire(id, facts),
        "context_window": facts.context_window,
        "max_output": facts.max_output,
        "prices": facts.prices,
        "thinking": facts.thinking,
        "images": facts.images,
    })
}

/// Columns as wide as they must be; names to the left, numbers to the right.
fn table(found: &[(&str, &ModelFacts)]) -> String {
    let mut rows = vec![HEAD.map(String::from)];
    rows.extend(found.iter().map(|(id, facts)| row(id, facts)));
    let mut widths = [0; HEAD.len()];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let line = |row: &[String; HEAD.len()]| {
        let cells =
            row.iter().zip(widths).enumerate().map(|(column, (cell, width))| match column {
                0 | 1 | 6 | 7 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            });
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

fn row(id: &str, facts: &ModelFacts) -> [String; HEAD.len()] {
    let count = |tokens: Option<u64>| tokens.map_or("?".into(), tokens_of);
    let price = |price: Option<f64>| price.map_or("?".into(), dollars);
    let whether = |fact| match fact {
        Some(true) => "yes".into(),
        Some(false) => "no".into(),
        None => String::from("?"),
    };
    [
        id.into(),
        wire(id, facts).into(),
        count(facts.context_window),
        count(facts.max_output),
        price(facts.prices.map(|prices| prices.input)),
        price(facts.prices.map(|prices| prices.output)),
        whether(facts.thinking),
        whether(facts.images),
    ]
}

fn provider(id: &str) -> &str {
    id.split_once('/').map_or(id, |(name, _)| name)
}

/// How the model is spoken to: as the catalogue says, else as its provider's models are, else as
/// most are.
fn wire(id: &str, facts: &ModelFacts) -> &'static str {
    let usual = || Provider::named(provider(id)).map(|provider| provider.wire);
    facts.wire.or_else(usual).map_or("openai-chat", |wire| wire.name())
}

/// `400k`, `1.05M`.
fn tokens_of(tokens: u64) -> String {
    match tokens {
        0..1000 => tokens.to_string(),
        1000..1_000_000 => format!("{}k", tokens / 1000),
        _ => format!("{}M", (tokens / 10_000) as f64 / 100.0),
    }
}

/// At least two digits after the point, and more where there is more to say.
fn dollars(price: f64) -> String {
    let text = format!("{price:.4}");
    let short = text.trim_end_matches('0');
    let least = text.len() - 2;
    text[..short.len().max(least)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [999, 128_000, 131_072, 1_050_000, 1_000_000].map(tokens_of),
            ["999", "128k", "131k", "1.05M", "1M"]
        );
        assert_eq!(
            [0.0, 15.0, 0.075, 0.0375, 1.25].map(dollars),
            ["0.00", "15.00", "0.075", "0.0375", "1.25"]
        );
    }
}
