//! Functions that cannot be `main`.

mod sync {
    #[loopwright::main]
    fn main() {}
}

mod options {
    #[loopwright::main(flavor = "current_thread")]
    async fn main() {}
}

#[loopwright::main]
async fn main(arguments: Vec<String>) {}
