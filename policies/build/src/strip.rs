//! Removes custom sections from core modules and components, nested ones included.

use anyhow::{Context, Result, ensure};

const HEADER: usize = 8;
/// The fifth byte and those after it: 1, 0 for a core module, then 0, 1 for a component.
const COMPONENT: [u8; 4] = [0x0d, 0, 1, 0];
const CUSTOM: u8 = 0;
/// Inside a component only.
const CORE_MODULE: u8 = 1;
const NESTED_COMPONENT: u8 = 4;

/// The binary without custom sections, except those whose names `keep` accepts.
pub fn custom_sections(binary: &[u8], keep: fn(&str) -> bool) -> Result<Vec<u8>> {
    let (header, mut rest) = binary.split_at_checked(HEADER).context("too short for WebAssembly")?;
    ensure!(header.starts_with(b"\0asm"), "not WebAssembly");
    let is_component = header.ends_with(&COMPONENT);
    let mut out = header.to_vec();
    while let Some((&id, after)) = rest.split_first() {
        let (length, after) = leb(after)?;
        let (body, after) = after.split_at_checked(length).context("a section ends early")?;
        rest = after;
        match id {
            CUSTOM if !keep(custom_name(body)?) => {}
            CORE_MODULE | NESTED_COMPONENT if is_component => push(&mut out, id, &custom_sections(body, keep)?),
            _ => push(&mut out, id, body),
        }
    }
    Ok(out)
}

fn custom_name(body: &[u8]) -> Result<&str> {
    let (length, rest) = leb(body)?;
    let (name, _) = rest.split_at_checked(length).context("a section's name ends early")?;
    std::str::from_utf8(name).context("a section's name is no text")
}

fn push(out: &mut Vec<u8>, id: u8, body: &[u8]) {
    out.push(id);
    let mut length = body.len();
    while length >= 0x80 {
        out.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(body);
}

/// An unsigned number in LEB128, and what follows it.
fn leb(bytes: &[u8]) -> Result<(usize, &[u8])> {
    let mut value = 0_usize;
    for (index, byte) in bytes.iter().take(5).enumerate() {
        value |= usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Ok((value, bytes.get(index + 1..).unwrap_or_default()));
        }
    }
    anyhow::bail!("a length is malformed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn custom_sections_go_and_the_rest_stays() {
        let module = b"\0asm\x01\0\0\0\x00\x05\x03abcX\x01\x01\x00\x00\x02\x01k";
        assert_eq!(custom_sections(module, |_| false).unwrap(), b"\0asm\x01\0\0\0\x01\x01\x00");
        assert_eq!(custom_sections(module, |name| name == "k").unwrap(), b"\0asm\x01\0\0\0\x01\x01\x00\x00\x02\x01k");
    }

    #[test]
    fn modules_inside_components_are_stripped_too() {
        let component = b"\0asm\x0d\0\x01\0\x01\x0c\0asm\x01\0\0\0\x00\x02\x01k";
        assert_eq!(custom_sections(component, |_| false).unwrap(), b"\0asm\x0d\0\x01\0\x01\x08\0asm\x01\0\0\0");
    }

    #[test]
    fn what_is_cut_short_is_refused() {
        for bad in [
            &b"\0asm"[..],
            b"not wasm",
            b"\0asm\x01\0\0\0\x01",
            b"\0asm\x01\0\0\0\x01\x05\x00",
            b"\0asm\x01\0\0\0\x00\x01\x09",
        ] {
            assert!(custom_sections(bad, |_| false).is_err());
        }
    }
}
