# SPDX-License-Identifier: GPL-3.0-or-later
"""The only layer that knows Blender's data: read, compile, write, keep."""
