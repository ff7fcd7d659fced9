//! Access to the recordings.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// One recording: its expectations and its bytes.
pub(crate) struct Recording {
    pub(crate) name: String,
    pub(crate) about: Value,
    pub(crate) bytes: Vec<u8>,
}

/// Returns a path below the shared test data.
pub(crate) fn shared(path: &str) -> PathBuf {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let shared =
        std::env::var_os("LOOPWRIGHT_SHARED").map_or_else(|| "../shared".into(), PathBuf::from);
    repository.join(shared).join(path)
}

/// Returns the text of a shared file.
pub(crate) fn read(path: &str) -> String {
    let path = shared(path);
    std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// Returns every `NAME.json` of a folder with its `NAME.EXTENSION`, sorted by name. Panics if the
/// folder has none.
pub(crate) fn recordings(folder: &str, extension: &str) -> Vec<Recording> {
    let folder = shared(folder);
    let entries =
        std::fs::read_dir(&folder).unwrap_or_else(|why| panic!("{}: {why}", folder.display()));
    let files = entries.map(|entry| entry.unwrap().path());
    let recordings =
        files.filter(|path| path.extension().is_some_and(|e| e == extension)).map(|path| {
            let about = std::fs::read(path.with_extension("json"))
                .unwrap_or_else(|why| panic!("{}: {why}", path.display()));
            Recording {
                name: path.file_stem().unwrap().to_string_lossy().into_owned(),
                about: serde_json::from_slice(&about)
                    .unwrap_or_else(|why| panic!("{}: {why}", path.display())),
                bytes: std::fs::read(&path).unwrap(),
            }
        });
    let mut recordings: Vec<Recording> = recordings.collect();
    recordings.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(!recordings.is_empty(), "there is no recording in {}", folder.display());
    recordings
}

/// Panics with all failures, if any.
pub(crate) fn verdict(what: &str, checked: usize, wrong: &[String]) {
    println!("{what}: {} of {checked} as expected", checked - wrong.len());
    assert!(checked > 0, "{what}: nothing to check");
    assert!(
        wrong.is_empty(),
        "{what}: {} of {checked} are wrong\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
