//! Storage and search of facts.

use loopwright_core::message::MessageId;
use loopwright_core::retrieval::Retriever;
use loopwright_memory::long_term::{LongTermError, MAX_FACT_BYTES, NewFact};

use super::*;

/// C184: a fact is found by its words, regardless of case, accents and English endings.
#[tokio::test]
async fn a_fact_is_found_by_its_words() {
    let (_folder, memory) = open();
    let stored = NewFact::from("Die Katze heißt Minka.").session("s1").message(MessageId(7));
    let first = memory.remember(&ann(), stored).await.unwrap();
    for text in ["Ann's café serves croissants.", "Ann lives in 東京.", "Ann has 3 children."] {
        memory.remember(&ann(), text).await.unwrap();
    }
    for (query, expected) in [
        ("minka", "Die Katze heißt Minka."),
        ("Wie heißt die KATZE?", "Die Katze heißt Minka."),
        ("a cafe", "Ann's café serves croissants."),
        ("serving a croissant", "Ann's café serves croissants."),
        ("京", "Ann lives in 東京."),
        ("東京都", "Ann lives in 東京."),
        ("3", "Ann has 3 children."),
    ] {
        let found = memory.recall(&[ann()], query, 1).await.unwrap();
        assert_eq!(texts(&found), [expected], "{query}");
    }
    for query in ["", " ", "dogs", "?!", "🙂"] {
        assert!(memory.recall(&[ann()], query, 5).await.unwrap().is_empty(), "{query}");
    }
    assert!(memory.recall(&[ann()], "minka", 0).await.unwrap().is_empty());
    assert!(memory.recall(&[], "minka", 5).await.unwrap().is_empty());
    assert_eq!((first.session.as_deref(), first.message), (Some("s1"), Some(MessageId(7))));
    assert_eq!(memory.facts(&[ann()], 0, 1).await.unwrap(), [first]);
}

/// C184: facts that contain rarer words of the query rank higher, and newer ones among equals.
#[tokio::test]
async fn rarer_words_count_more() {
    let (_folder, memory) = open();
    for n in 0..1200 {
        memory.remember(&ann(), format!("Ann likes the colour number{n}.")).await.unwrap();
    }
    memory.remember(&ann(), "Ann likes turquoise.").await.unwrap();
    let found = memory.recall(&[ann()], "What turquoise colour number7 does Ann like?", 3).await;
    let found = found.unwrap();
    assert_eq!(texts(&found)[0], "Ann likes the colour number7.", "colour adds to it");
    assert_eq!(texts(&found)[1], "Ann likes turquoise.");
    assert_eq!(found.len(), 2, "words of more than 1,000 facts find none on their own");
    let newest = memory.recall(&[ann()], "likes a colour", 2).await.unwrap();
    assert_eq!(
        texts(&newest),
        ["Ann likes the colour number1199.", "Ann likes the colour number1198."]
    );
    assert!(memory.recall(&[ann()], "turquoise", 9).await.unwrap().len() == 1);
}

/// C184: a text that differs only in case and white space is the same fact, whose time is
/// refreshed.
#[tokio::test]
async fn the_same_fact_is_stored_once() {
    let (_folder, memory) = open();
    let clock = Clock::default();
    let memory = memory.environment(clock.clone());
    clock.0.store(1000, Ordering::Relaxed);
    let first = memory.remember(&ann(), "Ann has a cat.").await.unwrap();
    clock.0.store(2000, Ordering::Relaxed);
    let repeated = memory.remember(&ann(), "  ann HAS\n a cat. ").await.unwrap();
    assert_eq!((repeated.id, repeated.created, repeated.refreshed), (first.id, 1000, 2000));
    assert_eq!(repeated.text, "Ann has a cat.");
    let of_bob = memory.remember(&bob(), "Ann has a cat.").await.unwrap();
    assert_ne!(of_bob.id, first.id);
    assert_eq!(memory.facts(&[ann(), bob(), ann()], 0, 9).await.unwrap(), [repeated, of_bob]);
}

/// C184: an empty fact, an overlong fact and a scope without a name are refused.
#[tokio::test]
async fn what_is_no_fact_is_refused() {
    let (_folder, memory) = open();
    for text in ["", "  ", "…!"] {
        assert_eq!(memory.remember(&ann(), text).await, Err(LongTermError::Empty));
    }
    let max_text = "é".repeat(MAX_FACT_BYTES / 2);
    memory.remember(&ann(), max_text.as_str()).await.unwrap();
    let error = memory.remember(&ann(), max_text + "e").await.unwrap_err();
    assert_eq!(error, LongTermError::TooLong { bytes: 4097 });
    assert!(error.to_string().contains("at most 4096 are stored: shorten it"), "{error}");
    assert_eq!(memory.remember(&Scope::user(""), "x").await, Err(LongTermError::Unnamed));
}

/// C186: with an embedder facts are found by their meaning too, and both rankings are merged.
#[tokio::test]
async fn a_fact_is_found_by_its_meaning() {
    let (_folder, memory) = open();
    let memory = memory.embedder(Meanings::new());
    for text in
        ["Ann has a kitten.", "Ann drives a car.", "Ann likes tea.", "A cat has nine lives."]
    {
        memory.remember(&ann(), text).await.unwrap();
    }
    let found = memory.recall(&[ann()], "my feline", 9).await.unwrap();
    assert_eq!(texts(&found), ["A cat has nine lives.", "Ann has a kitten."]);
    let both = memory.recall(&[ann()], "a cat and its lives", 9).await.unwrap();
    assert_eq!(texts(&both)[0], "A cat has nine lives.", "found by words and by meaning");
    assert_eq!(texts(&both)[1], "Ann has a kitten.");
    let strict = memory.min_similarity(1.1);
    assert!(strict.recall(&[ann()], "my feline", 9).await.unwrap().is_empty());
}

/// C186: a failing embedder costs the vector, not the fact; the vector is added later.
#[tokio::test]
async fn facts_outlive_a_failing_embedder_and_another_model() {
    let (_folder, memory) = open();
    let embedder = Meanings::new();
    let memory = memory.embedder(embedder.clone());
    embedder.is_down.store(true, Ordering::Relaxed);
    for n in 0..70 {
        memory.remember(&ann(), format!("Kitten number {n} is a kitten.")).await.unwrap();
    }
    assert_eq!(memory.recall(&[ann()], "kitten 7", 1).await.unwrap()[0].id, 8);
    let failed = memory.embed_missing().await.unwrap_err();
    assert!(matches!(failed, LongTermError::Embedder(_)), "{failed}");
    embedder.is_down.store(false, Ordering::Relaxed);
    assert!(memory.recall(&[ann()], "feline", 5).await.unwrap().is_empty());
    assert_eq!(memory.embed_missing().await.unwrap(), 70);
    assert_eq!(memory.embed_missing().await.unwrap(), 0);
    assert_eq!(memory.recall(&[ann()], "feline", 5).await.unwrap().len(), 5);

    let other = memory.clone().embedder(Meanings { id: "other", ..embedder });
    assert!(other.recall(&[ann()], "feline", 5).await.unwrap().is_empty(), "of another model");
    assert_eq!(other.embed_missing().await.unwrap(), 70);
    assert_eq!(other.recall(&[ann()], "feline", 5).await.unwrap().len(), 5);
    assert!(memory.recall(&[ann()], "feline", 5).await.unwrap().is_empty());
}

/// An embedder that never answers.
struct NeverDone;

#[async_trait::async_trait]
impl Embedder for NeverDone {
    async fn embed(&self, _: &[String]) -> Result<Vec<Vec<f32>>, RetrievalError> {
        std::future::pending().await
    }

    fn dimensions(&self) -> usize {
        4
    }

    fn id(&self) -> &str {
        "never-done"
    }
}

/// C186: a slow embedder does not delay a request: facts are found by their words.
#[tokio::test(start_paused = true)]
async fn a_slow_embedder_is_not_waited_for() {
    let (_folder, memory) = open();
    memory.remember(&ann(), "Ann has a cat.").await.unwrap();
    let slow = memory.embedder(NeverDone);
    let begin = tokio::time::Instant::now();
    assert_eq!(slow.recall(&[ann()], "cat", 5).await.unwrap().len(), 1);
    assert!(begin.elapsed() < std::time::Duration::from_secs(60), "{:?}", begin.elapsed());
}

/// C184: facts are listed in pages, in the order of storing.
#[tokio::test]
async fn facts_are_listed_in_pages() {
    let (_folder, memory) = open();
    for n in 0..7 {
        let scope = if n % 2 == 0 { ann() } else { Scope::project("ark") };
        memory.remember(&scope, format!("fact {n}")).await.unwrap();
    }
    let scopes = [ann(), Scope::project("ark"), Scope::agent("noah")];
    let (mut after, mut pages) = (0, Vec::new());
    loop {
        let page = memory.facts(&scopes, after, 3).await.unwrap();
        let Some(last) = page.last() else { break };
        after = last.id;
        pages.push(page.len());
    }
    assert_eq!(pages, [3, 3, 1]);
    assert_eq!(texts(&memory.facts(&[ann()], 0, 9).await.unwrap()).len(), 4);
    assert!(memory.facts(&scopes, u64::MAX, 9).await.unwrap().is_empty());
}

/// C184: a view of some scopes is a retriever.
#[tokio::test]
async fn a_view_of_scopes_is_a_retriever() {
    let (_folder, memory) = open();
    memory.remember(&Scope::agent("a"), "Build with make.").await.unwrap();
    memory.remember(&ann(), "Ann likes make.").await.unwrap();
    let retriever: Arc<dyn Retriever> = Arc::new(memory.scoped([Scope::agent("a")]));
    let passages = retriever.retrieve("make", 5).await.unwrap();
    let [passage] = &passages[..] else { panic!("{passages:?}") };
    assert_eq!((&*passage.text, &*passage.source), ("Build with make.", "fact 1"));
    assert!(passage.score > 0.0);
}
