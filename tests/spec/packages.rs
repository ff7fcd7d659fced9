//! The published packages: the metadata and the files of each, and the Rust version of all
//! dependencies.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Runs Cargo offline in the checkout. Returns its output.
pub(crate) fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .arg("--offline")
        .current_dir(ROOT)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "cargo {}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn metadata(arguments: &[&str]) -> Value {
    let command = ["metadata", "--format-version", "1"];
    serde_json::from_str(&cargo(&[&command, arguments].concat())).unwrap()
}

/// Returns the published packages of the workspace.
fn published() -> Vec<Value> {
    let metadata = metadata(&["--no-deps"]);
    let packages = metadata["packages"].as_array().unwrap();
    let packages: Vec<_> =
        packages.iter().filter(|package| package["publish"].is_null()).cloned().collect();
    assert!(packages.len() >= 8, "the packages of the workspace were found");
    packages
}

fn name(package: &Value) -> &str {
    package["name"].as_str().unwrap()
}

/// Parses Rust versions such as `1.85` and `1.85.1` for comparison.
fn version(text: &str) -> Vec<u32> {
    let mut parts: Vec<u32> = text.split('.').map(|part| part.parse().unwrap()).collect();
    parts.resize(3, 0);
    parts
}

#[test]
fn examples_are_not_published() {
    for package in published() {
        let manifest = package["manifest_path"].as_str().unwrap();
        let folder = Path::new(manifest).strip_prefix(ROOT).unwrap();
        assert!(!folder.starts_with("examples"), "{} lacks publish = false", folder.display());
    }
}

#[test]
fn every_package_describes_itself() {
    let shared = metadata(&["--no-deps"]);
    let core = shared["packages"].as_array().unwrap().iter();
    let core = core.clone().find(|package| name(package) == "loopwright-core").unwrap();
    for package in published() {
        let name = name(&package);
        for field in ["version", "edition", "rust_version", "license", "repository"] {
            assert!(!package[field].is_null(), "{name} has no {field}");
            assert_eq!(package[field], core[field], "the {field} of {name}");
        }
        let text = |field: &str| package[field].as_str().unwrap_or_default().to_owned();
        assert!((20..=120).contains(&text("description").len()), "the description of {name}");
        assert_eq!(text("documentation"), format!("https://docs.rs/{name}"));
        for field in ["keywords", "categories"] {
            let words = package[field].as_array().unwrap();
            assert!((1..=5).contains(&words.len()), "{name} has 1 to 5 {field}");
        }
        for keyword in package["keywords"].as_array().unwrap() {
            let keyword = keyword.as_str().unwrap();
            let known = |c: char| c.is_ascii_alphanumeric() || "-_+".contains(c);
            assert!(keyword.len() <= 20 && keyword.chars().all(known), "{name}: {keyword}");
        }
        let docs = &package["metadata"]["docs"]["rs"];
        assert_eq!(docs["rustdoc-args"], serde_json::json!(["--cfg", "docsrs"]), "{name}");
    }
}

/// The features that docs.rs enables exist, and packages with features show them as badges.
#[test]
fn the_documentation_has_every_feature_that_docs_rs_can_build() {
    for package in published() {
        let name = name(&package);
        let docs = &package["metadata"]["docs"]["rs"];
        let features = package["features"].as_object().unwrap();
        if docs["all-features"] != true {
            for feature in docs["features"].as_array().unwrap() {
                assert!(features.contains_key(feature.as_str().unwrap()), "{name}: {feature}");
            }
        }
        if !features.is_empty() {
            let manifest = Path::new(package["manifest_path"].as_str().unwrap());
            let root = std::fs::read_to_string(manifest.with_file_name("src/lib.rs")).unwrap();
            let badges = "#![cfg_attr(docsrs, feature(doc_cfg))]";
            assert!(root.contains(badges), "{name} has no badges for its features");
        }
    }
}

/// A package has its source, a readme and both licences, and no test data.
#[test]
fn every_package_has_its_licences_and_nothing_needless() {
    for package in published() {
        let name = name(&package);
        let readme = package["readme"].as_str().unwrap();
        let listed = cargo(&["package", "--list", "--allow-dirty", "--package", name]);
        let files: Vec<_> = listed.lines().map(|line| line.replace('\\', "/")).collect();
        for needed in ["LICENSE-APACHE", "LICENSE-MIT", readme, "Cargo.toml"] {
            assert!(files.iter().any(|file| file == needed), "{name} lacks {needed}");
        }
        for file in &files {
            let at_root = !file.contains('/');
            let source = ["src/", "page/", "template/"].iter().any(|dir| file.starts_with(dir));
            assert!(at_root || source, "{name} has {file}");
            let test_data = file.ends_with(".snap") || file.ends_with(".jsonl");
            assert!(!test_data, "{name} has {file}");
        }
    }
}

/// Files that are compiled into a crate are in its package, such as the server's page.
#[test]
fn every_package_has_the_files_that_its_source_includes() {
    for package in published() {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap());
        let folder = manifest.parent().unwrap();
        let listed = cargo(&["package", "--list", "--allow-dirty", "--package", name(&package)]);
        let sources = listed.lines().filter(|file| file.ends_with(".rs"));
        for source in sources {
            let text = std::fs::read_to_string(folder.join(source)).unwrap();
            // Documentation tests and unit tests run in the checkout.
            let code = text.split("#[cfg(test)]").next().unwrap().lines();
            let includes = code
                .filter(|line| !line.contains("#[doc = "))
                .filter_map(|line| line.split("include_str!(\"").nth(1)?.split('"').next());
            for include in includes {
                let path = folder.join(source).with_file_name(include).canonicalize().unwrap();
                let path = path.strip_prefix(folder.canonicalize().unwrap()).unwrap().to_owned();
                let is_listed = listed.lines().any(|file| Path::new(file) == path);
                assert!(is_listed, "{} lacks {}", name(&package), path.display());
            }
        }
    }
}

/// Cargo removes a development dependency without a version from the published manifest. With one,
/// packages whose tests use each other could not be published in any order.
#[test]
fn development_dependencies_on_the_workspace_have_no_version() {
    for package in published() {
        for dependency in package["dependencies"].as_array().unwrap() {
            if dependency["path"].is_null() {
                continue;
            }
            let label = format!("{} → {}", name(&package), name(dependency));
            match dependency["kind"].as_str() {
                Some("dev") => assert_eq!(dependency["req"], "*", "{label} has a version"),
                _ => assert_ne!(dependency["req"], "*", "{label} has no version"),
            }
        }
    }
}

/// No dependency, on this platform, needs a newer compiler than `rust-version`, the compiler of the
/// tests.
#[test]
fn no_dependency_needs_a_newer_compiler() {
    let host = cargo_host();
    let metadata = metadata(&["--locked", "--filter-platform", &host]);
    let packages = metadata["packages"].as_array().unwrap();
    let ours = published()[0]["rust_version"].as_str().unwrap().to_owned();
    let mut needed: Vec<_> = packages
        .iter()
        .filter(|package| !package["source"].is_null())
        .filter_map(|package| Some((version(package["rust_version"].as_str()?), package)))
        .collect();
    needed.sort_by(|a, b| a.0.cmp(&b.0));
    for (version, package) in needed.iter().rev().take(3) {
        println!("{} {} needs {version:?}", name(package), package["version"]);
    }
    let newer: Vec<_> = needed.iter().filter(|(needs, _)| *needs > version(&ours)).collect();
    assert!(newer.is_empty(), "rust-version is {ours}: {newer:?}");
}

/// Returns the target that Cargo builds for by default.
fn cargo_host() -> String {
    let output = Command::new(env!("CARGO")).arg("-vV").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.unwrap().to_owned()
}
