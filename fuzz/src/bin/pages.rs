//! Page files: a page, the zone maps of a segment, a manifest, or a page with comparisons. The first byte of an input says which,
//! and whether its checksums are put right first.

#![no_main]

use ishigaki_fuzz::seeds::plant;
use ishigaki_page::fuzz;
use libfuzzer_sys::fuzz_target;

/// In the first byte: the checksums are left as they are.
const AS_IT_IS: u8 = 0x80;

fn accepts(bytes: &[u8]) -> bool {
    let Some((&kind, rest)) = bytes.split_first() else { return false };
    let mut bytes = rest.to_vec();
    let seal = kind & AS_IT_IS == 0;
    match kind & !AS_IT_IS {
        0 => {
            if seal {
                bytes.resize(4096, 0);
                fuzz::seal_sheet(&mut bytes);
            }
            fuzz::page(&bytes)
        }
        1 => {
            if seal {
                fuzz::seal_sheet(&mut bytes);
            }
            fuzz::zones(&bytes)
        }
        2 => {
            if seal {
                fuzz::seal_manifest(&mut bytes);
            }
            fuzz::manifest(&bytes)
        }
        3 => {
            if seal && bytes.len() > fuzz::QUESTION {
                bytes.resize(fuzz::QUESTION + 4096, 0);
                fuzz::seal_sheet(&mut bytes[fuzz::QUESTION..]);
            }
            fuzz::within(&bytes)
        }
        _ => false,
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let tagged = |tag: u8, samples: Vec<Vec<u8>>| samples.into_iter().map(move |sample| [&[tag], &sample[..]].concat());
    let sheets = tagged(0, fuzz::pages()).chain(tagged(1, fuzz::zone_maps()));
    sheets.chain(tagged(2 | AS_IT_IS, fuzz::manifests())).chain(tagged(3, fuzz::questions())).collect()
}

fuzz_target!(init: plant(&seeds(), accepts), |bytes: &[u8]| {
    accepts(bytes);
});
