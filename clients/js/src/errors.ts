/** What a device refuses, in the words of the Python devices. */

export class SfumatoError extends Error {
  constructor(message: string) {
    super(message);
    this.name = new.target.name;
  }
}

/** The document, the point, an address or a parameter is wrong. */
export class InputError extends SfumatoError {}

/** The device's account has too little left; nothing was charged. */
export class BudgetError extends SfumatoError {}

/** The account, or the log of a server, cannot be read or written. */
export class StorageError extends SfumatoError {}

/** A server did not answer, or did not take something; what was to be sent is kept and can be sent again. */
export class UnreachableError extends SfumatoError {}

/** A server refused for good; `code` is that of docs/wire.md, empty where the answer had none. */
export class RefusedError extends InputError {
  constructor(
    message: string,
    readonly code: string,
  ) {
    super(message);
  }
}
