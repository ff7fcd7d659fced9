//! Time to recall facts: `cargo bench -p loopwright-memory --bench long_term`, or with
//! `-- --quick`.
//!
//! A user has 100,000 facts of twelve words, few of them frequent, as in natural language, and with
//! vectors of 384 dimensions. Queries have six words of a random fact. The bounds of the medians
//! are 5 ms for words and 30 ms for vectors. A second user has 100 facts in the same file: the
//! median for words is at most 1 ms, since the facts of others cost nothing.
//!
//! With `--quick` there are 10,000 facts, and the bounds are doubled, for busy machines.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark that goes wrong should stop"
)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use loopwright_core::retrieval::{Embedder, RetrievalError};
use loopwright_memory::long_term::{LongTerm, Scope};
use serde_json::json;

const DIMENSIONS: usize = 384;
const WORDS_PER_FACT: usize = 12;
const VOCABULARY: u64 = 50_000;
const QUERIES: usize = 200;

/// A reproducible sequence of numbers.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }

    fn fraction(&mut self) -> f64 {
        self.next() as f64 / (1_u64 << 53) as f64
    }

    /// Returns a word: the n-th one n times less often than the first.
    fn word(&mut self) -> String {
        let rank = (VOCABULARY as f64).powf(self.fraction()) as u64;
        let mut letters = rank.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut word = String::new();
        for _ in 0..7 {
            word.push(char::from(b'a' + (letters % 26) as u8));
            letters /= 26;
        }
        word
    }

    fn fact(&mut self) -> String {
        let words: Vec<String> = (0..WORDS_PER_FACT).map(|_| self.word()).collect();
        words.join(" ")
    }
}

/// An embedder with a direction for each word. The vector of a text is the sum of its words'.
struct Directions;

#[async_trait]
impl Embedder for Directions {
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, RetrievalError> {
        let vector = |text: &String| {
            let mut sum = vec![0.0; DIMENSIONS];
            for word in text.split(' ') {
                let seed = word.bytes().fold(7, |seed: u64, byte| seed * 31 + u64::from(byte));
                let mut random = Random(seed | 1);
                sum.iter_mut().for_each(|value| *value += random.fraction() as f32 - 0.5);
            }
            sum
        };
        Ok(texts.iter().map(vector).collect())
    }

    fn dimensions(&self) -> usize {
        DIMENSIONS
    }

    fn id(&self) -> &str {
        "directions"
    }
}

/// Returns facts in the format of an export.
fn export(facts: &[String]) -> String {
    let mut lines = json!({
        "loopwright": "facts", "version": 1, "scope": {"kind": "user", "name": "bench"},
    })
    .to_string();
    for text in facts {
        lines += &format!("\n{}", json!({"text": text, "created": 1, "refreshed": 1}));
    }
    lines
}

/// Measures queries one after the other, and returns the median and the 95th percentile.
async fn measure(memory: &LongTerm, user: &Scope, queries: &[String]) -> (Duration, Duration) {
    let scopes = std::slice::from_ref(user);
    memory.recall(scopes, &queries[0], 10).await.unwrap(); // reads the vectors
    let mut times = Vec::new();
    for query in queries {
        let start = Instant::now();
        let found = memory.recall(scopes, query, 10).await.unwrap();
        times.push(start.elapsed());
        assert!(!found.is_empty(), "{query}");
    }
    times.sort();
    (times[times.len() / 2], times[times.len() * 95 / 100])
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let is_quick = std::env::args().any(|arg| arg == "--quick");
    let count = if is_quick { 10_000 } else { 100_000 };
    let folder = tempfile::tempdir().unwrap();
    let by_words = LongTerm::open(folder.path().join("facts.db")).unwrap();
    let by_both = by_words.clone().embedder(Directions);
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let facts: Vec<String> = (0..count).map(|_| random.fact()).collect();
    let few: Vec<String> = facts.iter().step_by(count / 100).cloned().collect();
    let (user, other) = (Scope::user("bench"), Scope::user("other"));
    let start = Instant::now();
    by_words.import(&user, &export(&facts)).await.unwrap();
    by_words.import(&other, &export(&few)).await.unwrap();
    let stored = start.elapsed();
    by_both.embed_missing().await.unwrap();
    println!("{count} facts: stored in {stored:.0?}, embedded in {:.0?}", start.elapsed() - stored);

    let query = |facts: &[String], random: &mut Random| {
        let fact = &facts[random.next() as usize % facts.len()];
        fact.split(' ').step_by(2).collect::<Vec<_>>().join(" ")
    };
    let queries: Vec<String> = (0..QUERIES).map(|_| query(&facts, &mut random)).collect();
    let of_few: Vec<String> = (0..QUERIES).map(|_| query(&few, &mut random)).collect();
    // Words that are in no fact, so that only vectors match.
    let unknown: Vec<String> = (0..QUERIES).map(|n| format!("{n}x {n}y")).collect();
    let rows = [
        ("by words", measure(&by_words, &user, &queries).await, 5.0),
        ("by words, 100 facts beside those", measure(&by_words, &other, &of_few).await, 1.0),
        ("by vectors of 384 dimensions", measure(&by_both, &user, &unknown).await, 30.0),
        ("by both", measure(&by_both, &user, &queries).await, 35.0),
    ];
    let mut exit = ExitCode::SUCCESS;
    for (name, (median, late), bound) in rows {
        let bound = if is_quick { 2.0 * bound } else { bound };
        println!("{name}: p50 {median:.2?}, p95 {late:.2?} (bound of p50: {bound} ms)");
        if median.as_secs_f64() * 1000.0 > bound {
            println!("{name}: too slow");
            exit = ExitCode::FAILURE;
        }
    }
    exit
}
