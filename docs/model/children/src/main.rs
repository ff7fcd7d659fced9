//! `cargo run --release` checks the models with every rule on, then with each rule off.
//!
//! `… tree RULE…`, `… crash RULE…` (a tree without message and abort), `… questions RULE…`,
//! `… rewind RULE…` and `… charges RULE…` print the shortest counterexample with those rules off.
mod charges;
mod explore;
mod questions;
mod rewind;
mod tree;
use charges::Charges;
use explore::{Label, Model, explore};
use questions::Talk;
use rewind::Branches;
use tree::Tree;

fn show(path: &[Label]) -> String {
    let name = |i: u8| ["A", "B", "C"][i as usize];
    let one = |l: &Label| match (l.1, l.2) {
        (9, 9) => l.0.to_string(),
        (i, 9) => format!("{} [{}]", l.0, name(i)),
        (i, k) => format!("{} [{} call {k}]", l.0, name(i)),
    };
    path.iter().map(one).collect::<Vec<_>>().join("\n        ")
}

fn trees() -> Vec<(&'static str, Tree)> {
    let t = Tree {
        off: 0,
        calls: [1, 1],
        share: [2, 2],
        budget: 5,
        kills: 1,
        decs: 2,
        msg: true,
        abort: true,
        fails: true,
        expires: false,
    };
    vec![
        ("one call each, 1 kill", t),
        ("two calls and one, 1 kill", Tree { calls: [2, 1], share: [3, 2], budget: 6, ..t }),
        ("one child refused, 1 kill", Tree { budget: 3, ..t }),
        ("a deadline, 1 kill", Tree { expires: true, fails: false, decs: 1, ..t }),
        ("one call each, 2 kills", Tree { kills: 2, decs: 2, fails: false, ..t }),
    ]
}

fn check<M: Model>(name: &str, m: &M, verbose: bool) -> bool {
    let t = std::time::Instant::now();
    let f = explore(m);
    match &f.violation {
        None => println!("    ok: {name}: {} states, {:.0} s", f.states, t.elapsed().as_secs_f32()),
        Some((what, path)) => {
            println!("    VIOLATION ({name}, {} steps): {what}", path.len());
            if verbose {
                println!("        {}", show(path))
            }
        }
    }
    f.violation.is_none()
}

/// Returns the bits of the rules with these names.
fn off(rules: &[(&str, &str)], names: &[String]) -> u64 {
    let at = |name: &String| rules.iter().position(|r| r.0 == name).expect("a rule's name");
    names.iter().fold(0, |bits, name| bits | 1 << at(name))
}

fn check_trees(trees: &[(&str, Tree)]) {
    for (name, t) in trees {
        if !check(name, t, true) {
            break;
        }
    }
}

/// Checks a small model: every rule on, with one kill and with two, then each rule off.
fn check_small<M: Model>(name: &str, rules: &[(&str, &str)], model: impl Fn(u64, u8) -> M) {
    check(&format!("{name}, every rule on, 1 kill"), &model(0, 1), true);
    check(&format!("{name}, every rule on, 2 kills"), &model(0, 2), true);
    for (i, (rule, text)) in rules.iter().enumerate() {
        println!("{name} without {rule}: {text}");
        check("2 kills", &model(1 << i, 2), true);
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let talk = |off, kills| Talk { off, kills };
    let branches = |off, kills| Branches { off, kills };
    let charges = |off, kills| Charges { off, kills, budget: 5 };
    if let Some((model, names)) = args.split_first() {
        match model.as_str() {
            "questions" => drop(check("2 kills", &talk(off(questions::RULES, names), 2), true)),
            "rewind" => drop(check("2 kills", &branches(off(rewind::RULES, names), 2), true)),
            "charges" => drop(check("2 kills", &charges(off(charges::RULES, names), 2), true)),
            "tree" | "crash" => {
                let off = off(tree::RULES, names);
                // The counterexample that needs the crash: no message, no abort.
                let calm = model == "crash";
                let with =
                    |t: Tree| Tree { off, msg: t.msg && !calm, abort: t.abort && !calm, ..t };
                let trees: Vec<_> = trees().into_iter().map(|(name, t)| (name, with(t))).collect();
                check_trees(&trees)
            }
            _ => println!("no such model"),
        }
        return;
    }
    check_small("questions", questions::RULES, talk);
    check_small("rewind", rewind::RULES, branches);
    for budget in 2..7 {
        let charges = Charges { budget, ..charges(0, 2) };
        check(&format!("charges, budget {budget}, 2 kills"), &charges, true);
    }
    check_small("charges", charges::RULES, charges);
    println!("tree, every rule on");
    for (name, t) in trees() {
        check(name, &t, true);
    }
    let big = Tree { kills: 2, decs: 3, expires: true, ..trees()[1].1 };
    check("two calls and one, deadlines, 3 decisions, 2 kills", &big, true);
    for (i, (rule, text)) in tree::RULES.iter().enumerate() {
        println!("tree without {rule}: {text}");
        let trees: Vec<_> =
            trees()[..4].iter().map(|(name, t)| (*name, Tree { off: 1 << i, ..*t })).collect();
        check_trees(&trees)
    }
}
