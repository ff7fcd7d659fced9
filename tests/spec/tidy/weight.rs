//! How many crates each part brings with it, and which it leaves out.

use std::collections::BTreeSet;

use super::read;
use crate::packages::cargo;

/// The packages outside the workspace share the builds of the dependencies with it only if they
/// have the same versions.
#[test]
fn the_locks_have_the_same_versions() {
    let versions = |lock: &str| -> BTreeSet<(String, String)> {
        let packages = lock.split("[[package]]\n").skip(1).map(str::lines);
        packages
            .filter_map(|mut lines| Some((lines.next()?.into(), lines.next()?.into())))
            .collect()
    };
    let main = versions(&read("Cargo.lock"));
    for path in ["fuzz/Cargo.lock", "tests/without_schema/Cargo.lock"] {
        for (name, version) in versions(&read(path)) {
            let is_known = main.iter().any(|(known, _)| *known == name);
            let is_same = main.contains(&(name.clone(), version.clone()));
            assert!(is_same || !is_known, "{path}: {name}, {version}; copy Cargo.lock there");
        }
    }
}

/// Builds that someone may want: a package, its features, the largest number of crates, and
/// beginnings of names of crates that must not be in it. The core has no HTTP, no database and no
/// terminal.
const BUILDS: [(&str, &str, usize, &str); 5] = [
    (
        "loopwright-core",
        "",
        45,
        "fancy-regex jsonschema reqwest hyper axum rusqlite crossterm clap",
    ),
    ("loopwright-memory", "jsonl", 100, "rusqlite libsqlite3-sys"),
    ("loopwright-host", "coding-agent", 220, "axum rusqlite libsqlite3-sys crossterm clap"),
    ("loopwright-server", "", 120, "rusqlite libsqlite3-sys"),
    ("loopwright-tools", "", 120, "landlock seccompiler grep-"),
];

/// Nobody compiles what they do not use: a part without its default features is small.
#[test]
fn a_part_without_its_features_brings_few_crates() {
    for (package, features, max_crates, unwanted) in BUILDS {
        let tree = ["tree", "--edges", "normal", "--prefix", "none", "--format", "{p}"];
        let part = ["--no-default-features", "--package", package, "--features", features];
        let crates = cargo(&[&tree[..], &part].concat());
        // A name and a version; after these, an address or `(*)`.
        let names = crates.lines().filter(|line| !line.is_empty());
        let crates: BTreeSet<_> =
            names.map(|line| line.split(' ').take(2).collect::<Vec<_>>()).collect();
        println!("{package} with features [{features}]: {} of {max_crates} crates", crates.len());
        assert!(crates.len() <= max_crates, "{package} [{features}]: {crates:?}");
        for name in unwanted.split(' ') {
            let found = crates.iter().find(|found| found[0].starts_with(name));
            assert_eq!(found, None, "{package} [{features}]");
        }
    }
}
