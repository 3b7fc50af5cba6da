"""Other libraries' interfaces to this one; each module needs the library that it is named after."""
