// The images of the next message: pasted, dropped or chosen, and drawn before they are sent.

import { byId, el } from './dom.js';

const TYPES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];
const MAX_IMAGES = 10;
/** Limits above which an image is scaled down, as models do not see more detail. */
const MAX_FILE_BYTES = 1_000_000, MAX_SIDE = 2_000;
/** Maximum number of base64 characters in a request. */
const MAX_CHARS = 4_000_000;

let images = []; // in the form to send: {media_type, data}

/** Returns the images, and removes them from the next message. */
export function takeImages() {
  const taken = images;
  draw([]);
  return taken;
}

/** Puts images back that could not be sent. */
export const putBack = (taken) => draw([...taken, ...images]);

/** Lets the user add images. `reporting(work)` returns a function that shows why an image cannot be added. */
export function acceptImages(reporting) {
  const add = reporting(async (files) => {
    for (const file of files) {
      const image = await read(file);
      if (images.length >= MAX_IMAGES) throw new Error(`A message has at most ${MAX_IMAGES} images.`);
      if ([...images, image].reduce((sum, { data }) => sum + data.length, 0) > MAX_CHARS) {
        throw new Error('These images are too large for one message: send several messages.');
      }
      draw([...images, image]);
    }
  });
  const chooser = byId('files');
  byId('attach').addEventListener('click', () => chooser.click());
  chooser.addEventListener('change', async () => {
    await add([...chooser.files]);
    chooser.value = '';
    byId('prompt').focus();
  });
  byId('prompt').addEventListener('paste', (event) => {
    const files = [...event.clipboardData.files];
    if (!files.length) return;
    event.preventDefault();
    add(files);
  });
  const main = document.querySelector('main');
  main.addEventListener('dragover', (event) => event.dataTransfer.types.includes('Files') && event.preventDefault());
  main.addEventListener('drop', (event) => {
    const files = [...event.dataTransfer.files];
    if (!files.length) return;
    event.preventDefault();
    add(files);
  });
}

function draw(all) {
  images = all;
  byId('attached').replaceChildren(...images.map((image, at) => el('li', {},
    el('img', { src: `data:${image.media_type};base64,${image.data}`, alt: `Image ${at + 1}` }),
    el('button', {
      type: 'button', class: 'quiet', 'aria-label': `Remove image ${at + 1}`,
      onclick: () => draw(images.filter((one) => one !== image)),
    }, '✕'))));
}

async function read(file) {
  if (!TYPES.includes(file.type)) throw new Error(`${file.name || 'This'} is no PNG, JPEG, GIF or WebP image.`);
  const blob = file.size > MAX_FILE_BYTES ? await redrawn(file) : file;
  const url = await new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    reader.onerror = () => failed(new Error(`${file.name || 'The image'} could not be read.`));
    reader.readAsDataURL(blob);
  });
  return { media_type: blob.type, data: url.slice(url.indexOf(',') + 1) };
}

/** Returns a large image with fewer pixels, as JPEG. */
async function redrawn(file) {
  const image = await createImageBitmap(file).catch(() => {
    throw new Error(`${file.name || 'The image'} is damaged.`);
  });
  const scale = Math.min(1, MAX_SIDE / Math.max(image.width, image.height));
  const [width, height] = [image.width, image.height].map((side) => Math.max(1, Math.round(side * scale)));
  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext('2d');
  context.fillStyle = 'white';
  context.fillRect(0, 0, width, height);
  context.drawImage(image, 0, 0, width, height);
  return canvas.convertToBlob({ type: 'image/jpeg', quality: 0.85 });
}
