//! The JSON Schema Test Suite, which other validators are tested with.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::validator::Validator;

/// The drafts, with the URI of each metaschema.
const DRAFTS: [(&str, &str); 5] = [
    ("draft4", "http://json-schema.org/draft-04/schema#"),
    ("draft6", "http://json-schema.org/draft-06/schema#"),
    ("draft7", "http://json-schema.org/draft-07/schema#"),
    ("draft2019-09", "https://json-schema.org/draft/2019-09/schema"),
    ("draft2020-12", "https://json-schema.org/draft/2020-12/schema"),
];
/// Optional parts that hold here.
const OPTIONAL: [&str; 5] = [
    "bignum.json",
    "ecmascript-regex.json",
    "float-overflow.json",
    "non-bmp-regex.json",
    "format/date-time.json",
];
/// Not supported: vocabularies of custom metaschemas.
const NOT_SUPPORTED: &str = "no validation: invalid number, but it still validates";

/// C447: The verdicts of the JSON Schema Test Suite for Drafts 4, 6, 7, 2019-09 and 2020-12.
/// Schemas that refer to other documents are refused, because nothing is fetched.
#[test]
#[ignore = "needs the suite: LOOPWRIGHT_SCHEMA_SUITE"]
fn verdicts_are_those_of_the_suite() {
    let suite = std::env::var("LOOPWRIGHT_SCHEMA_SUITE").expect("the folder `tests` of the suite");
    let (mut wrong, mut right) = (Vec::new(), 0);
    for (draft, metaschema) in DRAFTS {
        for path in files(&Path::new(&suite).join(draft)) {
            let groups = std::fs::read_to_string(&path).unwrap();
            let groups: Vec<Value> = serde_json::from_str(&groups).unwrap();
            for group in groups {
                let mut schema = group["schema"].clone();
                if let Some(fields) = schema.as_object_mut() {
                    fields.entry("$schema").or_insert_with(|| json!(metaschema));
                }
                let name = format!("{}: {}", path.display(), group["description"]);
                let compiled = match Validator::compile(&schema) {
                    Ok(compiled) => compiled,
                    Err(why) if why.contains("`$ref` leads nowhere") => continue,
                    Err(why) => panic!("{name}: {why}"),
                };
                for test in group["tests"].as_array().unwrap() {
                    let verdict = compiled.validate(&test["data"]);
                    match verdict.is_ok() == test["valid"] {
                        true => right += 1,
                        false if test["description"] == NOT_SUPPORTED => {}
                        false => {
                            wrong.push(format!("{name}, {}: {verdict:?}", test["description"]))
                        }
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(right > 5_000, "{right}");
    println!("{right} verdicts");
}

/// Returns the files of a draft. Later drafts only annotate formats.
fn files(draft: &Path) -> Vec<PathBuf> {
    let required = draft.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let optional = OPTIONAL.iter().map(|name| draft.join("optional").join(name));
    let annotates = draft.ends_with("draft2019-09") || draft.ends_with("draft2020-12");
    let optional = optional.filter(|path| !(annotates && path.ends_with("format/date-time.json")));
    required.chain(optional).filter(|path| path.is_file()).collect()
}
