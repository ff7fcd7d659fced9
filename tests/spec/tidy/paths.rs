//! From the public path of a name of the core, its file follows.

use std::collections::BTreeMap;

use super::code::Code;
use super::layers::{made_up, read_crate};

/// The name with words in lower case, joined by `_`.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

/// Returns whether `module::name` is in the file of the module or below it. At the root, a name is
/// in a file that its last words name.
fn leads_to(module: &str, name: &str, file: &str) -> bool {
    let stem = file.trim_end_matches(".rs");
    match module {
        "" => !stem.contains('/') && snake(name).ends_with(stem),
        module => stem == module || stem.starts_with(&format!("{module}/")),
    }
}

/// Lists the names of which no path leads to the file, and names with two paths of which neither
/// is at the root or in `error`, or with more.
fn misplaced(code: &Code) -> Vec<String> {
    let mut paths: BTreeMap<(usize, String), Vec<String>> = BTreeMap::new();
    for (index, module) in code.modules.iter().enumerate() {
        if index == 0 || module.public {
            let path = module.path.trim_start_matches("crate").trim_start_matches("::");
            for (name, definition) in code.exports(index) {
                paths.entry((definition, name)).or_default().push(path.replace("::", "/"));
            }
        }
    }
    let is_wrong = |((definition, name), modules): &(&(usize, String), &Vec<String>)| {
        let file = &code.files[code.modules[*definition].file];
        let doubled = match modules.as_slice() {
            [_] => false,
            [one, two] => ![one, two].iter().any(|path| ["", "error"].contains(&path.as_str())),
            _ => true,
        };
        doubled || !modules.iter().any(|module| leads_to(module, name, file))
    };
    let wrong = paths.iter().filter(is_wrong).map(|((definition, name), modules)| {
        let file = &code.files[code.modules[*definition].file];
        format!("{name}, in {file}, of [{}]", modules.join(", "))
    });
    wrong.collect()
}

/// `loopwright::a::B` is defined in `src/a.rs` or below `src/a/`.
#[test]
fn the_file_of_a_public_name_follows_from_its_path() {
    let code = read_crate("src", "lib.rs");
    let names: usize = (0..code.modules.len()).map(|module| code.exports(module).len()).sum();
    assert!(names > 200, "the names are found");
    let found = misplaced(&code);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_name_that_is_elsewhere_or_has_many_paths_is_found() {
    let code = made_up(
        "=== lib.rs\npub mod a; pub mod b; pub mod error; mod c; mod other_thing;\n\
         pub use a::A; pub use other_thing::{Else, OtherThing};\n\
         === a.rs\nmod inner; pub use crate::c::C; pub use inner::Inner; pub struct A;\n\
         pub use crate::error::Wrong;\n\
         === a/inner.rs\npub struct Inner;\n\
         === b.rs\npub use crate::a::{A, Inner};\n\
         === c.rs\npub struct C;\n\
         === error.rs\npub struct Wrong;\n\
         === other_thing.rs\npub struct Else; pub struct OtherThing;\n",
    );
    let wrong = ["A, in a.rs", "Inner, in a/inner.rs", "C, in c.rs", "Else, in other_thing.rs"];
    let found = misplaced(&code);
    assert_eq!(found.len(), wrong.len(), "{found:?}");
    for (found, wrong) in found.iter().zip(wrong) {
        assert!(found.starts_with(wrong), "{found}");
    }
}
