//! The expansion of `#[main]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, ItemFn, Result};

/// Returns a function that runs the async function on a runtime.
pub(crate) fn main(options: TokenStream, function: ItemFn) -> Result<TokenStream> {
    if !options.is_empty() {
        let text = "`#[loopwright::main]` has no options; for another runtime, depend on tokio and \
                    use `#[tokio::main]`";
        return Err(Error::new_spanned(options, text));
    }
    let sig = &function.sig;
    if sig.asyncness.is_none() {
        return Err(Error::new_spanned(sig.fn_token, "write `async fn`: the function is awaited"));
    }
    if !sig.inputs.is_empty() || !sig.generics.params.is_empty() {
        let text = "the function takes no parameters; read arguments with `std::env::args`";
        return Err(Error::new_spanned(sig, text));
    }
    let (attributes, visibility, name) = (&function.attrs, &function.vis, &sig.ident);
    let (output, body) = (&sig.output, &function.block);
    Ok(quote! {
        #(#attributes)*
        #visibility fn #name() -> ::std::process::ExitCode {
            use ::loopwright::__private::{AnyEnd as _, BoxedEnd as _, ErrorEnd as _, TextEnd as _};
            async fn #name() #output #body
            let future = #name();
            (&&&&::loopwright::__private::Of::output(&future)).end().exit_code(future)
        }
    })
}
