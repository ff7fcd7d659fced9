//! What Markdown looks like, that it is the same however it comes, and what it costs.

use super::super::highlight::load;
use super::*;

fn whole(text: &str, width: u16) -> Vec<Line<'static>> {
    Markdown::new(width).update(text, true, &Theme::ansi()).to_vec()
}

fn shown(text: &str, width: u16) -> String {
    whole(text, width).iter().map(|line| line.to_string().trim_end().to_owned() + "\n").collect()
}

/// Markdown of every kind, some of it bad.
const NASTY: &[&str] = &[
    "# One\ntext\n## Two\n\nSetext\n===\n\nother\n---\nrest *em **strong** em* ~~gone~~ `code`\n",
    "- a\n- b\n  - c\n    - d\n\n      para\n- e\n\n* other list\n1. one\n1. two\n\n7) seven\n8) eight\n",
    "1. a\n   ```rust\n   fn f() {}\n   ```\n2. b\n\n   > quote\n   > - in quote\n",
    "> quote\n> more\nlazy\n>\n> > deeper\n> ```\n> code\n> ```\nafter\n",
    "```rust\nfn main() { println!(\"x\"); }\n/* open\nstill */\n```\n\n~~~\n```\n~~~\n``` js\nunclosed\n",
    "| a | b |\n|---|:-:|\n| 1 | 2 |\n| `x|y` | long cell with words |\nafter\n\n| not a table\n",
    "<div>\n<b>x</b>\n\ntext <br> more <i>html</i>\n<!-- open\n\nstill -->\n<script>\n\n</script>\n",
    "*unclosed **emphasis `and code\n\n[link](javascript:alert(1)) [b](http://b.example) <http://c.example> [d]()\n",
    "[ref] and [text][ref]\n\n[ref]: http://ref.example 'title'\n\n[ref] again\n\n[other]: http://other.example\n",
    "![alt](pic.png) ![](nothing.png) [![in](x.png)](http://y.example)\n\n- [ ] task\n- [x] done\n1. [ ] three\n",
    "a  \nhard\\\nbreak\n\n***\n\n    indented\n\n    code\n\n-\n- \n-\n\n  x\n",
    "漢字漢字漢字 👩‍👩‍👧‍👦 e\u{301}\u{202e}rtl\u{202c} \x1b[31mred\0\r\nnext\r\n\r\nlast\r",
    "- a\n-\n  b\n\n\n\n- c\n\ttab\n+ d\n\n  ***\n  text\n10. x\n2. y\n",
    "text\n```\nopen at once\n```\nmore\n- list\n```\ncode\n````\n    ```\nx\n   ```\n",
    "#\n##hashtag\n####### seven\n# a #\n=\n-\n--\n",
];

#[test]
fn looks() {
    load();
    let text = "# A heading\nSome *emphasised* and **strong** text with `code`, a [link](https://example.com/a) and an \
        <https://example.org>.\n\n## Lists\n- one\n- two, which is long enough that it must go on in the next line\n  \
        1. nested\n  2. twice\n- [x] done\n- [ ] to do\n\n9. nine\n9. ten\n\n> A quote that is long enough for two lines \
        of this width\n> - with a list\n\n```rust\nfn main() {\n    println!(\"this line is far too long for the width that \
        there is\");\n}\n```\n\n| Name | Count | What it is |\n|:--|--:|---|\n| a | 1 | short |\n| bcd | 20 | a long cell \
        that must be wrapped in its column |\n\n---\n\n![a picture](x.png) <b>raw</b>\n\n[1]: https://example.com\n";
    insta::assert_snapshot!("wide", shown(text, 60));
    insta::assert_snapshot!("narrow", shown(text, 24));
}

#[test]
fn nasty_looks() {
    for (n, text) in NASTY.iter().enumerate() {
        insta::assert_snapshot!(format!("nasty_{n:02}"), format!("{text}\n⇒\n{}", shown(text, 40)));
    }
}
