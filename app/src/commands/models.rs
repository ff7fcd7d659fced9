//! `loopwright models`: the known models.

use loopwright_providers::{ModelFacts, Provider};
use serde_json::{Value, json};

use crate::args::ModelsArgs;
use crate::config::Config;
use crate::environment::started_as;
use crate::error::StartError;
use crate::exit_code::EMPTY;
use crate::output;
use crate::session::catalogue;

const HEAD: [&str; 8] = ["MODEL", "WIRE", "CONTEXT", "OUTPUT", "$ IN", "$ OUT", "THINKS", "IMAGES"];

/// Lists the models that match the filter, and returns the exit code.
pub(crate) fn models(args: &ModelsArgs, config: &Config) -> Result<u8, StartError> {
    let file = config.models(args.models.models.as_ref());
    let catalogue = catalogue(file.as_ref(), &config.program.names)?;
    let models: Vec<_> = catalogue.search(&args.filter).collect();
    if models.is_empty() {
        output::error(&format!(
            "no known model has `{}` in its name. `{} models` lists all of them; other models \
             can be used too, and described in a file (see --models).",
            args.filter,
            started_as()
        ));
        return Ok(EMPTY);
    }
    output::after_write(match args.json {
        true => output::data(&json_lines(&models)),
        false => output::text(&table(&models)),
    })
}

/// Returns an object per line, with null for unknown values.
fn json_lines(models: &[(&str, &ModelFacts)]) -> String {
    models.iter().map(|(id, facts)| format!("{}\n", object(id, facts))).collect()
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

/// Returns a table with names aligned to the left and numbers to the right.
fn table(models: &[(&str, &ModelFacts)]) -> String {
    let mut rows = vec![HEAD.map(String::from)];
    rows.extend(models.iter().map(|(id, facts)| row(id, facts)));
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
    let count = |tokens: Option<u64>| tokens.map_or("?".into(), format_tokens);
    let price = |price: Option<f64>| price.map_or("?".into(), format_dollars);
    let yes_or_no = |fact| match fact {
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
        yes_or_no(facts.thinking),
        yes_or_no(facts.images),
    ]
}

fn provider(id: &str) -> &str {
    id.split_once('/').map_or(id, |(name, _)| name)
}

/// Returns the model's wire format: the catalogue's, else the provider's, else the usual one.
fn wire(id: &str, facts: &ModelFacts) -> &'static str {
    let usual = || Provider::named(provider(id)).map(|provider| provider.wire);
    facts.wire.or_else(usual).map_or("openai-chat", |wire| wire.name())
}

/// Formats a number of tokens as `400k` or `1.05M`.
fn format_tokens(tokens: u64) -> String {
    match tokens {
        0..1000 => tokens.to_string(),
        1000..1_000_000 => format!("{}k", tokens / 1000),
        _ => format!("{}M", (tokens / 10_000) as f64 / 100.0),
    }
}

/// Formats a price with two to four decimal places.
fn format_dollars(price: f64) -> String {
    let text = format!("{price:.4}");
    let without_zeros = text.trim_end_matches('0').len();
    let two_places = text.len() - 2;
    text[..without_zeros.max(two_places)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [999, 128_000, 131_072, 1_050_000, 1_000_000].map(format_tokens),
            ["999", "128k", "131k", "1.05M", "1M"]
        );
        assert_eq!(
            [0.0, 15.0, 0.075, 0.0375, 1.25].map(format_dollars),
            ["0.00", "15.00", "0.075", "0.0375", "1.25"]
        );
    }
}
