//! The index of words: the facts of a scope that contain the words of a query.
//!
//! Each word is stored with the number of its scope in front, so that the facts of other scopes
//! cost nothing. The number is between two [`MARK`]s, which no word of a text contains. So a text
//! cannot fake a word of another scope, although SQLite may split it at more characters than this
//! module does. SQLite's own ranking, `bm25()`, is not used: for each query it counts the facts
//! that contain a word, which may be all. Instead, the score of a fact is the sum of the weights of
//! its words. A word weighs more the fewer facts of the scope contain it, which is BM25 for words
//! that occur once in texts of the same length.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, Statement};

use super::error::FileError;
use super::fact::{Fact, ScopeId};

type Result<T> = std::result::Result<T, FileError>;

/// A private-use character that SQLite takes for a letter and Rust does not.
const MARK: char = '\u{e000}';

/// Maximum number of words of a query that are looked up. Later ones are ignored.
const MAX_QUERY_WORDS: usize = 32;

/// Maximum number of facts that a word may find. A more frequent word only adds to the score of
/// facts found by rarer words.
const MAX_FACTS_OF_WORD: usize = 1000;

/// Adds a fact to the index.
pub(super) fn index(connection: &Connection, scope: ScopeId, fact: &Fact) -> Result<()> {
    let sql = "INSERT INTO word (rowid, text) VALUES (?, ?)";
    let words = words(scope, &fact.text).join(" ");
    connection.prepare(sql)?.execute((fact.id as i64, words))?;
    Ok(())
}

/// Removes a fact from the index.
pub(super) fn remove(connection: &Connection, scope: ScopeId, fact: &Fact) -> Result<()> {
    let sql = "INSERT INTO word (word, rowid, text) VALUES ('delete', ?, ?)";
    let words = words(scope, &fact.text).join(" ");
    connection.prepare(sql)?.execute((fact.id as i64, words))?;
    Ok(())
}

/// Returns at most `limit` facts of the scope that contain words of the query, with their scores,
/// best first and newer first among equals.
pub(super) fn search(
    connection: &Connection,
    scope: ScopeId,
    query: &str,
    limit: usize,
) -> Result<Vec<(u64, f64)>> {
    let mut count = connection.prepare("SELECT facts FROM scope WHERE id = ?")?;
    let facts: Option<i64> = count.query_row((scope.0,), |row| row.get(0)).optional()?;
    let facts = facts.unwrap_or(0) as f64;
    let mut lookup = connection.prepare("SELECT rowid FROM word WHERE word MATCH ? LIMIT ?")?;
    let mut scores: HashMap<u64, f64> = HashMap::new();
    let (mut rare, mut common) = (Vec::new(), Vec::new());
    for word in query_words(scope, query) {
        let found = matching(&mut lookup, &word, MAX_FACTS_OF_WORD + 1)?;
        if found.len() > MAX_FACTS_OF_WORD {
            common.push(word);
            continue;
        }
        let weight = weight(facts, found.len());
        found.iter().for_each(|id| *scores.entry(*id).or_default() += weight);
        rare.push(word);
    }
    if scores.is_empty() && !common.is_empty() {
        // The newest facts with all common words, or else with any of them.
        let newest = "SELECT rowid FROM word WHERE word MATCH ? ORDER BY rowid DESC LIMIT ?";
        let mut newest = connection.prepare(newest)?;
        for operator in [" AND ", " OR "] {
            let found = matching(&mut newest, &common.join(operator), limit)?;
            scores.extend(found.into_iter().map(|id| (id, 0.0)));
            if !scores.is_empty() {
                break;
            }
        }
    } else {
        let weight = weight(facts, MAX_FACTS_OF_WORD);
        for word in common {
            let both = format!("{word} AND ({})", rare.join(" OR "));
            for id in matching(&mut lookup, &both, rare.len() * MAX_FACTS_OF_WORD)? {
                *scores.entry(id).or_default() += weight;
            }
        }
    }
    let mut ranked: Vec<(u64, f64)> = scores.into_iter().collect();
    ranked.sort_by(|(a, score_a), (b, score_b)| score_b.total_cmp(score_a).then(b.cmp(a)));
    ranked.truncate(limit);
    Ok(ranked)
}

/// Returns the weight of a word that `found` of `facts` contain.
fn weight(facts: f64, found: usize) -> f64 {
    let found = found as f64;
    (1.0 + (facts - found + 0.5).max(0.0) / (found + 0.5)).ln()
}

/// Returns at most `limit` facts that match an expression of quoted words.
fn matching(statement: &mut Statement<'_>, words: &str, limit: usize) -> Result<Vec<u64>> {
    let rows = statement.query_map((words, limit as i64), |row| row.get::<_, i64>(0))?;
    Ok(rows.map(|id| id.map(|id| id as u64)).collect::<rusqlite::Result<_>>()?)
}

/// Returns the words of a query, each once and in quotes, so that SQLite does not take them for
/// operators.
fn query_words(scope: ScopeId, query: &str) -> Vec<String> {
    let mut quoted: Vec<String> = Vec::new();
    for word in words(scope, query) {
        let word = format!("\"{word}\"");
        if !quoted.contains(&word) {
            quoted.push(word);
        }
        if quoted.len() == MAX_QUERY_WORDS {
            break;
        }
    }
    quoted
}

/// Returns the words of a text as stored. They consist of letters, digits and accents.
fn words(scope: ScopeId, text: &str) -> Vec<String> {
    let text = separated(text).to_lowercase();
    let words = text.split(|c: char| !c.is_alphanumeric() && !is_accent(c));
    let words = words.filter(|word| word.contains(char::is_alphanumeric));
    words.map(|word| format!("{MARK}{}{MARK}{word}", scope.0)).collect()
}

/// Returns whether the character is an accent of the character before it.
fn is_accent(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}')
}

/// Puts spaces around Chinese and Japanese characters, so that each is a word: these scripts have
/// no spaces between words.
fn separated(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\u{3040}'..='\u{30ff}'
            | '\u{3400}'..='\u{9fff}'
            | '\u{f900}'..='\u{faff}'
            | '\u{20000}'..='\u{3ffff}' => out.extend([' ', c, ' ']),
            c => out.push(c),
        }
    }
    out
}
