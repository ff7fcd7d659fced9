//! The file: deletion, export, damage, several processes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use loopwright_core::log::MemoryError;
use loopwright_core::testing::ScriptedModel;
use loopwright_core::{GenericAgent, RunContext};
use loopwright_memory::Sqlite;
use loopwright_memory::long_term::LongTermError;
use loopwright_patterns::PiPattern;

use super::*;

/// Returns whether a file of the folder contains the bytes.
fn contains(folder: &Path, bytes: &[u8]) -> bool {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut contents = files.filter(|file| file.is_file()).map(|file| fs::read(file).unwrap());
    contents.any(|content| content.windows(bytes.len()).any(|window| window == bytes))
}

/// C187: the bytes of a forgotten fact are in no file, neither its words nor its vector.
#[tokio::test]
async fn a_forgotten_fact_is_in_no_file() {
    let (folder, memory) = open();
    let memory = memory.embedder(Meanings::new());
    let value = (1.0 / 2_f64.sqrt()) as f32;
    let vector: Vec<u8> = [value, value, 0.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    let text = "catxyzzy catxyzzy dogquux dogquux pinnochio";
    let mut ids = Vec::new();
    for n in 0..300 {
        memory.remember(&bob(), format!("Bob likes number {n}.")).await.unwrap();
        if n % 100 == 50 {
            let fact = memory.remember(&ann(), format!("{text} {n}")).await.unwrap();
            ids.push(fact.id);
        }
    }
    let stored = || {
        let found = [&b"xyzzy"[..], b"quux", b"pinno", &vector];
        found.map(|bytes| contains(folder.path(), bytes))
    };
    assert_eq!(stored(), [true; 4]);
    for id in ids {
        assert!(memory.forget(&ann(), id).await.unwrap());
        assert!(!memory.forget(&ann(), id).await.unwrap());
    }
    assert_eq!(stored(), [false; 4], "while the file is open");
    drop(memory);
    assert_eq!(stored(), [false; 4]);
}

/// C187: all facts of a person are deleted, and the person's name.
#[tokio::test]
async fn all_facts_of_a_person_are_deleted_with_the_name() {
    let (folder, memory) = open();
    let zoe = Scope::user("zoe-at-example");
    for n in 0..500 {
        memory.remember(&zoe, format!("Zoe owns quuxite number {n}.")).await.unwrap();
        memory.remember(&bob(), format!("Bob owns nothing but {n}.")).await.unwrap();
    }
    assert!(contains(folder.path(), b"zoe-at-example"));
    assert_eq!(memory.forget_all(&zoe).await.unwrap(), 500);
    assert_eq!(memory.forget_all(&zoe).await.unwrap(), 0);
    for bytes in [&b"zoe-at-example"[..], b"quuxit", b"Zoe", b"zoe"] {
        assert!(!contains(folder.path(), bytes), "{}", String::from_utf8_lossy(bytes));
    }
    assert_eq!(memory.facts(&[bob(), zoe.clone()], 0, 999).await.unwrap().len(), 500);
    let new = memory.remember(&zoe, "Zoe is back.").await.unwrap();
    assert_eq!(new.id, 1001, "no id is used again");
}

/// C187: with the last fact of a person, the records of sessions that recalled facts are deleted.
#[tokio::test]
async fn where_facts_were_recalled_is_deleted_with_them() {
    let (folder, memory) = open();
    memory.remember(&ann(), "The user has a cat.").await.unwrap();
    memory.remember(&bob(), "The user has a dog.").await.unwrap();
    let model = ScriptedModel::new([Script::text("Miaow."), Script::text("Woof.")]);
    let agent = GenericAgent::builder(model, PiPattern).hook(memory.hook()).build().unwrap();
    for (user, session) in [("ann", "quuxsession"), ("bob", "barksession")] {
        let (handle, _events) = agent.run(RunContext::new().session(session)).await.unwrap();
        handle.prompt(by(user, "Do I have a cat or a dog?")).await.unwrap();
    }
    assert!(contains(folder.path(), b"quuxsession"));
    memory.forget_all(&ann()).await.unwrap();
    assert!(!contains(folder.path(), b"quuxsession"));
    assert!(contains(folder.path(), b"barksession"), "those of others stay");
    let dog = memory.facts(&[bob()], 0, 1).await.unwrap().remove(0);
    memory.forget(&bob(), dog.id).await.unwrap();
    assert!(!contains(folder.path(), b"barksession"), "with a single fact, too");
}

/// C187: a deletion takes place even if its future is dropped.
#[tokio::test]
async fn a_deletion_whose_future_is_dropped_is_done() {
    let (folder, memory) = open();
    memory.remember(&ann(), "The cat is called quuxite.").await.unwrap();
    let (ann, bob) = (ann(), bob());
    {
        let mut deletion = Box::pin(memory.forget_all(&ann));
        let _ = futures::poll!(&mut deletion); // it has begun
    }
    let mut is_deleted = false;
    for _ in 0..10_000 {
        is_deleted = memory.facts(std::slice::from_ref(&ann), 0, 1).await.unwrap().is_empty();
        if is_deleted {
            break;
        }
    }
    assert!(is_deleted);
    memory.remember(&bob, "Bob waits for the writer.").await.unwrap();
    assert!(!contains(folder.path(), b"quuxite"));
}

/// C192: an export can be imported, with its times and sources.
#[tokio::test]
async fn an_export_can_be_imported() {
    let (_folder, memory) = open();
    let clock = Clock::default();
    let memory = memory.environment(clock.clone());
    for (n, text) in ["One.", "Zwei \"Hörner\"\nund ein \u{1F404}", "三 {}\\"].iter().enumerate()
    {
        clock.0.store(1000 + n as u64, Ordering::Relaxed);
        let new = loopwright_memory::long_term::NewFact::from(*text).session("s\u{0}");
        memory.remember(&ann(), new.message(loopwright_core::message::MessageId(9))).await.unwrap();
    }
    clock.0.store(5000, Ordering::Relaxed);
    memory.remember(&ann(), "one.").await.unwrap();
    let export = memory.export(&ann()).await.unwrap();
    assert_eq!(export.lines().count(), 4);
    let (_other_folder, other) = open();
    let other = other.embedder(Meanings::new());
    for _ in 0..2 {
        assert_eq!(other.import(&bob(), &export).await.unwrap(), 3);
        let repeated = other.export(&bob()).await.unwrap();
        let (first, facts) = export.split_once('\n').unwrap();
        assert_eq!(repeated, format!("{}\n{facts}", first.replace("ann", "bob")));
    }
    for (text, line) in [
        ("", 1),
        ("{}", 1),
        ("{\"loopwright\":\"log\",\"version\":1,\"session\":\"s\"}", 1),
        (
            "{\"loopwright\":\"facts\",\"version\":2,\"scope\":{\"kind\":\"user\",\"name\":\"a\"}}",
            1,
        ),
        (&export.replace("\"One.\"", "\"\""), 2),
        (&export.replace("\"text\":\"三", "\"x\":\"三"), 4),
    ] {
        let error = other.import(&Scope::user("new"), text).await.unwrap_err();
        assert!(matches!(&error, LongTermError::Import { line: l, .. } if *l == line), "{error}");
    }
    assert!(other.facts(&[Scope::user("new")], 0, 9).await.unwrap().is_empty(), "all or none");
}

/// C191: a file of something else, of a newer version or a damaged one is named, and left
/// untouched.
#[tokio::test]
async fn a_file_that_cannot_be_used_is_left_untouched() {
    let (folder, path) = temp_file();
    let refused = |content: &[u8], expected: &str| {
        fs::write(&path, content).unwrap();
        let error = LongTerm::open(&path).err().unwrap();
        assert!(error.to_string().contains(expected), "{error}");
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        assert_eq!(fs::read(&path).unwrap(), content, "untouched");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no other file");
        error
    };
    refused(b"Dear diary, today I wrote no database at all, and more.", "is no SQLite database");
    let sessions = folder.path().join("sessions.db");
    drop(Sqlite::open(&sessions).unwrap());
    let content = fs::read(&sessions).unwrap();
    fs::remove_file(&sessions).unwrap();
    fs::remove_dir_all(folder.path().join("sessions.db-owners")).unwrap();
    refused(&content, "is no long-term memory of loopwright");
    fs::remove_file(&path).unwrap();

    let memory = LongTerm::open(&path).unwrap();
    let fact = memory.remember(&ann(), "Ann has a cat.").await.unwrap();
    drop(memory);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let good = fs::read(&path).unwrap();
    let mut newer = good.clone();
    newer[60..64].copy_from_slice(&9_u32.to_be_bytes());
    let error = refused(&newer, "was written by a newer version of loopwright (format 9");
    assert!(matches!(error, MemoryError::Newer { .. }));
    let mut damaged = good.clone();
    damaged[100..1000].fill(0xaa);
    refused(&damaged, "is damaged: restore the file from a backup");

    // A damaged page is an error, or is not needed. No fact is missing without an error.
    let mut errors = 0;
    for page in 1..good.len() / 4096 {
        let mut damaged = good.clone();
        damaged[page * 4096..(page + 1) * 4096].fill(0xaa);
        fs::write(&path, &damaged).unwrap();
        let found = match LongTerm::open(&path) {
            Ok(memory) => memory.recall(&[ann()], "cat", 9).await,
            Err(error) => Err(error.into()),
        };
        match found {
            Ok(facts) => assert_eq!(facts, std::slice::from_ref(&fact), "page {page}"),
            Err(LongTermError::Store(MemoryError::Damaged(_))) => errors += 1,
            Err(error) => panic!("page {page}: {error}"),
        }
    }
    assert!(errors > 5, "{errors} pages");
}

/// C191: two stores of one file see each other's changes, by words and by meaning, and none of
/// their writes is lost.
#[tokio::test]
async fn two_stores_of_one_file_see_each_others_changes() {
    let (_folder, path) = temp_file();
    let first = LongTerm::open(&path).unwrap().embedder(Meanings::new());
    let second = LongTerm::open(&path).unwrap().embedder(Meanings::new());
    let find =
        async |memory: &LongTerm, query: &str| memory.recall(&[ann()], query, 99).await.unwrap();
    assert!(find(&second, "feline").await.is_empty());
    let kitten = first.remember(&ann(), "Ann has a kitten.").await.unwrap();
    assert_eq!(find(&second, "feline").await, std::slice::from_ref(&kitten));
    assert_eq!(find(&second, "kitten").await, std::slice::from_ref(&kitten));
    second.remember(&ann(), "Cats and a cat.").await.unwrap();
    assert_eq!(find(&first, "feline").await.len(), 2);
    second.forget(&ann(), kitten.id).await.unwrap();
    assert_eq!(texts(&find(&first, "feline").await), ["Cats and a cat."]);
    assert!(find(&first, "kitten").await.iter().all(|fact| fact.id != kitten.id));
    second.forget_all(&ann()).await.unwrap();
    assert!(find(&first, "feline").await.is_empty());

    let write = |memory: LongTerm, name: &'static str| {
        tokio::spawn(async move {
            for n in 0..100 {
                memory.remember(&ann(), format!("{name} {n}")).await.unwrap();
                memory.remember(&ann(), format!("both {n}")).await.unwrap();
            }
        })
    };
    let (one, two) = (write(first.clone(), "one"), write(second.clone(), "two"));
    one.await.unwrap();
    two.await.unwrap();
    let facts = first.facts(&[ann()], 0, 999).await.unwrap();
    assert_eq!(facts.len(), 300);
    assert_eq!(find(&second, "both 7").await[0].text, "both 7");
}

/// C184: facts outlive the process, and the same search finds them again.
#[tokio::test]
async fn facts_outlive_the_process() {
    let (_folder, path) = temp_file();
    let memory = LongTerm::open(&path).unwrap();
    let fact = memory.remember(&ann(), "Ann has a cat.").await.unwrap();
    drop(memory);
    let memory = LongTerm::open(&path).unwrap();
    assert_eq!(memory.recall(&[ann()], "cats", 5).await.unwrap(), [fact]);
}
