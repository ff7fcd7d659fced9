//! Disks that are full, and files that may not be written.

use std::io::{BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::processes::{line, other};
use super::*;

/// In a process whose files may not grow beyond a limit.
pub(super) async fn fill(store: &Jsonl) {
    let memory = store.open("s").await.unwrap();
    let mut at = memory.load(0).await.unwrap().len() as u64;
    let full = loop {
        match memory.append(at, [said(&"x".repeat(1000)), LogEntry::Reset].into()).await {
            Ok(()) => at += 2,
            Err(error) => break error,
        }
    };
    println!("ERROR {full}");
    assert_eq!(
        memory.append(at + 1, [LogEntry::Reset].into()).await,
        Err(MemoryError::Conflict { at: at + 1, end: at })
    );
    assert_eq!(memory.load(0).await.unwrap().len() as u64, at);
    append(&*memory, at, &[LogEntry::Reset]).await; // which is small enough
    println!("ITEMS {}", at + 1);
    match store.open("another").await {
        Ok(another) => append(&*another, 0, &[said("there is room for others")]).await,
        Err(error) => panic!("{error}"),
    }
}

/// C76: a full disk takes nothing away: the append has failed as a whole, and the log goes on when
/// there is room.
#[tokio::test]
async fn a_full_disk_takes_nothing_away() {
    let (directory, store, file) = store(&[&[said("one")]]).await;
    let mut shell = Command::new("sh");
    shell
        .args(["-c", r#"trap '' XFSZ; ulimit -f 100; exec "$0" "$@""#])
        .arg(std::env::current_exe().unwrap());
    let mut child = other(&mut shell, "fill", directory.path());
    let mut said_by_child = BufReader::new(child.stdout.take().unwrap());
    let error = line(&mut said_by_child, "ERROR");
    assert!(
        error.contains(file.to_str().unwrap()) && error.contains("as it was before"),
        "{error}"
    );
    let items: u64 = line(&mut said_by_child, "ITEMS").parse().unwrap();
    said_by_child.read_to_string(&mut String::new()).unwrap();
    assert!(child.wait().unwrap().success());
    let memory = store.open("s").await.unwrap();
    assert_eq!((memory.repaired(), memory.load(0).await.unwrap().len() as u64), (None, items));
    assert!(items > 40);
    append(&*memory, items, &[said(&"x".repeat(100_000))]).await;
    assert_eq!(store.read("another", 0).await.unwrap().len(), 1);
}

/// In a process that may read the files and not write them.
pub(super) async fn write_what_is_read_only(store: &Jsonl) {
    assert_eq!(store.read("s", 0).await.unwrap(), [said("one")]);
    assert_eq!(store.sessions().await.unwrap().len(), 1);
    let errors = [
        store.open("s").await.err(),
        store.open("new").await.err(),
        store.delete("s").await.err(),
        store.fork("s", None, "f").await.err(),
    ];
    for error in errors {
        println!("ERROR {}", error.unwrap());
    }
}

/// What may only be read is read, and errors name the file.
#[tokio::test]
async fn read_only_files_are_read() {
    let (directory, store, file) = store(&[&[said("one")]]).await;
    let whole = fs::read(&file).unwrap();
    let program = directory.path().join("program"); // where another user may run it
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o555)).unwrap();
    for (files, folder) in [(0o444, 0o555), (0o644, 0o755)] {
        for path in [&file, &directory.path().join(".lock")] {
            fs::set_permissions(path, fs::Permissions::from_mode(files)).unwrap();
        }
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(folder)).unwrap();
        let mut command = Command::new(&program);
        if rustix::process::geteuid().is_root() {
            command.uid(65534).gid(65534); // whom permissions bind
        } else if files == 0o644 {
            continue; // they are our own
        }
        let mut child = other(&mut command, "read only", directory.path());
        let mut said_by_child = BufReader::new(child.stdout.take().unwrap());
        for _ in 0..4 {
            let error = line(&mut said_by_child, "ERROR");
            assert!(
                error.contains(directory.path().to_str().unwrap()) && error.contains("denied"),
                "{error}"
            );
        }
        said_by_child.read_to_string(&mut String::new()).unwrap();
        assert!(child.wait().unwrap().success());
        assert_eq!(fs::read(&file).unwrap(), whole);
    }
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(directory.path().join(".lock"), fs::Permissions::from_mode(0o644)).unwrap();
    assert!(store.open("s").await.is_ok());
}

#[tokio::test]
async fn a_directory_in_the_place_of_a_file_is_named() {
    let (directory, store, file) = store(&[&[said("one")]]).await;
    let place = directory.path().join("d.jsonl");
    fs::create_dir(&place).unwrap();
    for error in [
        store.open("d").await.err(),
        store.read("d", 0).await.err(),
        store.fork("s", None, "d").await.err(),
    ] {
        let error = error.unwrap().to_string();
        assert!(error.contains(place.to_str().unwrap()), "{error}");
    }
    assert_eq!(store.sessions().await.unwrap().len(), 1);
    let error = Jsonl::open(&file).err().unwrap().to_string();
    assert!(error.contains(file.to_str().unwrap()), "{error}");
}
